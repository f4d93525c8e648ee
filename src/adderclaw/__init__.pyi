from adderclaw.clients.python.agent_client import AgentClient as AgentClient
from adderclaw.clients.python.agent_client import Query as Query
from adderclaw.clients.python.agent_client import run_channel as run_channel
from adderclaw.clients.python.bash_security import BashSecurity as BashSecurity
from adderclaw.clients.python.bash_security import ValidationResult as ValidationResult
from adderclaw.clients.python.channel import Channel as Channel
from adderclaw.clients.python.channel import Handle as Handle
from adderclaw.core.query import AssistantMessage as AssistantMessage
from adderclaw.core.query import PartialMessage as PartialMessage
from adderclaw.core.query import QueryOptions as QueryOptions
from adderclaw.core.query import ResultMessage as ResultMessage
from adderclaw.core.query import SystemMessage as SystemMessage
from adderclaw.core.query import UserMessage as UserMessage
from adderclaw.core.questions import Answer as Answer
from adderclaw.core.questions import ApprovalRequest as ApprovalRequest
from adderclaw.flows.spec.scenarios import Session as Session
from adderclaw.flows.spec.scenarios import SessionOptions as SessionOptions
from adderclaw.flows.spec.scenarios import SessionResult as SessionResult
from adderclaw.flows.spec.scenarios import StatusTool as StatusTool

initializer_prompt: str
coding_prompt: str
__version__: str
