from adderclaw.channels.bash_security import BashSecurity as BashSecurity
from adderclaw.channels.bash_security import ValidationResult as ValidationResult
from adderclaw.channels.python import AgentClient as AgentClient
from adderclaw.channels.python import AssistantMessage as AssistantMessage
from adderclaw.channels.python import PartialMessage as PartialMessage
from adderclaw.channels.python import Query as Query
from adderclaw.channels.python import QueryOptions as QueryOptions
from adderclaw.channels.python import ResultMessage as ResultMessage
from adderclaw.channels.python import SystemMessage as SystemMessage
from adderclaw.channels.python import UserMessage as UserMessage
from adderclaw.channels.scenarios import Session as Session
from adderclaw.channels.scenarios import SessionOptions as SessionOptions
from adderclaw.channels.scenarios import SessionResult as SessionResult
from adderclaw.channels.scenarios import StatusTool as StatusTool

initializer_prompt: str
coding_prompt: str
__version__: str
