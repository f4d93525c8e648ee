"""Sends a notice by SMTP: plain text, over TLS unless configured otherwise, with single-line headers."""

import asyncio
import smtplib
import socket
import ssl
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate

from adderclaw.agent.notices.letter import Letter, Undelivered
from adderclaw.config.schema import NoticeTarget

PORTS = {"starttls": 587, "tls": 465, "none": 25}
SUBJECT = 120


def message(letter: Letter) -> EmailMessage:
    """The message. Text written by a model cannot add a header."""
    mail = EmailMessage()
    target = letter.target
    mail["From"] = Address(addr_spec=target.sender)
    mail["To"] = [Address(addr_spec=address) for address in target.to]
    mail["Subject"] = " ".join(letter.title.split())[:SUBJECT]
    mail["Date"] = formatdate(letter.now)
    mail["Message-ID"] = f"<{letter.id}@{target.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Priority"] = "2" if letter.urgent else "3"
    mail.set_content(f"{letter.text}\n")
    return mail


async def deliver(letter: Letter) -> None:
    """Send the message within the target's time limit."""
    sending = _Sending(letter)
    try:
        async with asyncio.timeout(letter.target.timeout_seconds):
            await asyncio.to_thread(sending.send)
    except TimeoutError:
        raise Undelivered(f"no answer from {letter.target.host} within {letter.target.timeout_seconds:g} s") from None
    finally:
        sending.drop()


class _Sending:
    """One connection to a server, which another thread may close."""

    def __init__(self, letter: Letter) -> None:
        self._letter = letter
        self._client: smtplib.SMTP | None = None

    def send(self) -> None:
        target = self._letter.target
        try:
            with self._opened(target) as client:
                if target.user:
                    client.login(target.user, self._letter.parts.get("password", ""))
                client.send_message(message(self._letter))
        except smtplib.SMTPAuthenticationError as error:
            raise Undelivered(f"{target.host} refuses the login ({error.smtp_code})", again=False) from None
        except smtplib.SMTPRecipientsRefused as error:
            codes = sorted({code for code, _ in error.recipients.values()})
            raise Undelivered(f"{target.host} refuses every recipient ({codes})", again=codes[:1] < [500]) from None
        except smtplib.SMTPResponseException as error:
            text = error.smtp_error
            text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
            why = f"{target.host} answered {error.smtp_code} {' '.join(text.split())[:200]}"
            raise Undelivered(why, again=error.smtp_code < 500) from None
        except smtplib.SMTPNotSupportedError as error:
            raise Undelivered(f"{target.host}: {error}", again=False) from None
        except ssl.SSLCertVerificationError as error:
            fix = "set ca_file if it is your own"
            raise Undelivered(
                f"the certificate of {target.host} is not trusted ({error.verify_message}): {fix}"
            ) from None
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise Undelivered(f"{target.host}: {error}") from None

    def _opened(self, target: NoticeTarget) -> smtplib.SMTP:
        port = target.port or PORTS[target.security]
        seconds = target.timeout_seconds
        trust = ssl.create_default_context(cafile=target.ca_file) if target.security != "none" else None
        if target.security == "tls":
            self._client = smtplib.SMTP_SSL(target.host, port, timeout=seconds, context=trust)
            return self._client
        self._client = client = smtplib.SMTP(target.host, port, timeout=seconds)
        if target.security == "starttls":
            client.starttls(context=trust)  # fails without STARTTLS, so that nothing is sent unencrypted
        return client

    def drop(self) -> None:
        """Close the connection, because a server that sends a byte now and then could block its thread for hours."""
        held = getattr(self._client, "sock", None)
        if isinstance(held, socket.socket):
            try:
                held.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
