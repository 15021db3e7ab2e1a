"""Letters by e-mail: SMTP in a thread of its own, with a deadline that ends even a server that answers one byte at a time."""
import asyncio
import contextlib
import smtplib
import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from gpufairy.core.errors import NotDelivered
from gpufairy.core.letter import MOST_SHOWN, Letter, subject_of, text_of
from gpufairy.couriers.http_post import TRIED_AGAIN
from gpufairy.wire.tls import trust_authorities

DEADLINE_S = 20.0  # for the whole exchange
ANSWER_S = 8.0  # for one answer
PORTS = {"starttls": 587, "tls": 465, "none": 25}
THREADS = ThreadPoolExecutor(4, "mail")  # servers that hang must not take the threads of others


@dataclass(frozen=True, slots=True)
class MailServer:
    host: str
    port: int
    security: str  # starttls, tls, none
    sender: str
    user: str = ""
    password: Callable[[], str | None] = lambda: None
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class Mail:
    server: MailServer
    to: tuple[str, ...]
    most_items: int = MOST_SHOWN

    @property
    def place(self) -> str:
        return f"{', '.join(self.to)} by {self.server.host}" if self.to else self.server.host

    async def send(self, letter: Letter) -> None:
        call = SmtpCall(self.server)
        to = (letter.to,) if letter.to else self.to
        sending = asyncio.get_running_loop().run_in_executor(THREADS, call.send, message_of(letter, self.server.sender, to), to)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await asyncio.shield(sending)
        except TimeoutError:
            call.cut()
            with contextlib.suppress(NotDelivered):
                await sending  # it ends now: its socket is shut
            raise NotDelivered(f"mail server {self.server.host} did not take the message within {DEADLINE_S:g} s", TRIED_AGAIN) from None


def message_of(letter: Letter, sender: str, to: Sequence[str]) -> EmailMessage:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = f"[gpufairy] {subject_of(letter)}", sender, ", ".join(to)
    message["Date"], message["Message-ID"] = formatdate(), make_msgid(domain=sender.rpartition("@")[2] or None)
    message["Auto-Submitted"] = "auto-generated"  # nobody's holiday notice answers it
    message.set_content(text_of(letter))
    return message


@dataclass(slots=True)
class SmtpCall:
    server: MailServer
    smtp: smtplib.SMTP | None = field(default=None)

    def send(self, message: EmailMessage, to: Sequence[str]) -> None:
        """In a thread."""
        server = self.server
        try:
            context = trust_authorities(file=server.ca_file)
            password = server.password()
            with self._connected(context) as smtp:
                if server.security == "starttls":
                    smtp.starttls(context=context)
                if server.user:
                    smtp.login(server.user, password or "")
                refused = smtp.send_message(message, server.sender, list(to))
        except smtplib.SMTPAuthenticationError as error:
            found = f"mail server {server.host} does not take the name and password of the channel ({error.smtp_code})"
            raise NotDelivered(found, TRIED_AGAIN) from None
        except smtplib.SMTPRecipientsRefused as error:
            why = next(iter(error.recipients.values()))[1]
            raise NotDelivered(f"mail server {server.host} refused every address: {words(why)}", TRIED_AGAIN) from None
        except smtplib.SMTPResponseException as error:
            raise NotDelivered(f"mail server {server.host} answered {error.smtp_code}: {words(error.smtp_error)}", TRIED_AGAIN) from None
        except (smtplib.SMTPException, OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
            raise NotDelivered(f"mail server {server.host}:{server.port} did not take the message: {words(reason)}", TRIED_AGAIN) from None
        if refused:
            found = f"mail server {server.host} refused {len(refused)} of {len(to)} addresses"
            raise NotDelivered(found, "Check the addresses of the channel.")

    def cut(self) -> None:
        if self.smtp is not None and self.smtp.sock is not None:
            with contextlib.suppress(OSError):
                self.smtp.sock.shutdown(socket.SHUT_RDWR)

    def _connected(self, context: ssl.SSLContext) -> smtplib.SMTP:
        host, port = self.server.host, self.server.port
        if self.server.security == "tls":
            self.smtp = smtplib.SMTP_SSL(timeout=ANSWER_S, context=context)
        else:
            self.smtp = smtplib.SMTP(timeout=ANSWER_S)
        self.smtp._host = host  # type: ignore[attr-defined]  # what the certificate must be of; set only by its own constructor
        self.smtp.connect(host, port)
        return self.smtp


def words(found: bytes | str) -> str:
    text = found.decode(errors="replace") if isinstance(found, bytes) else found
    return "".join(char if char.isprintable() else " " for char in text)[:160]
