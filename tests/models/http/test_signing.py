"""Signatures against published vectors and an independent implementation; what does not fit is refused, in tables."""

import base64
import hashlib
from typing import Any

import pytest

from adderclaw.core.errors import UsageError
from adderclaw.models.http import signing
from adderclaw.models.http.signing import Unverified, verify_github, verify_signed

NOW = 1_614_265_330.0
PUBLISHED = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"another secret of ours, longer").decode()
TEXT = "It's a Secret to Everybody"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
BODY = b'{"test": 2432232314}'


def hmac_by_hand(key: bytes, message: bytes) -> bytes:
    """RFC 2104, of nothing but SHA-256."""
    key = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + message).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).digest()


def by_hand(secret: str, id: str, time: str, body: bytes) -> str:
    key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
    made = hmac_by_hand(key, b".".join([id.encode(), time.encode(), body]))
    return "v1," + base64.b64encode(made).decode()


def pairs(secret: str = PUBLISHED, id: str = ID, time: str = "1614265330", body: bytes = BODY) -> list[tuple[str, str]]:
    return [
        ("Webhook-Id", id),
        ("webhook-timestamp", time),
        ("WEBHOOK-SIGNATURE", by_hand(secret, id, time, body)),
        ("content-type", "application/json"),
    ]


def test_the_published_vectors_are_met() -> None:
    assert signing.signature(PUBLISHED, ID, 1_614_265_330, BODY) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    given = [
        ("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
    ]
    assert verify_github([TEXT], given, b"Hello, World!").timestamp is None


@pytest.mark.parametrize("body", [b"", b"{}", BODY, bytes(range(256)), "grüße ☃".encode(), b"x" * 100_000])
@pytest.mark.parametrize("secret", [PUBLISHED, OTHER, TEXT, "k" * 200])
def test_both_directions_agree_with_another_implementation(secret: str, body: bytes) -> None:
    made = signing.headers([secret], body, id="m1", now=NOW + 0.9)
    assert made == {
        "webhook-id": "m1",
        "webhook-timestamp": "1614265330",
        "webhook-signature": by_hand(secret, "m1", "1614265330", body),
    }
    assert verify_signed([secret], made.items(), body, now=NOW) == ("m1", 1_614_265_330)


def test_while_a_secret_is_replaced_either_of_them_counts() -> None:
    both = signing.headers([OTHER, PUBLISHED], BODY, id="m1", now=NOW)
    assert len(both["webhook-signature"].split(" ")) == 2
    for known in ([PUBLISHED], [OTHER], [OTHER, PUBLISHED], [PUBLISHED, TEXT]):
        assert verify_signed(known, both.items(), BODY, now=NOW).id == "m1"
    with pytest.raises(Unverified):
        verify_signed([TEXT], both.items(), BODY, now=NOW)


def changed(name: str, value: str | None) -> list[tuple[str, str]]:
    rest = [pair for pair in pairs() if pair[0].lower() != name]
    return rest if value is None else [*rest, (name, value)]


RIGHT = by_hand(PUBLISHED, ID, "1614265330", BODY)
REFUSED: list[tuple[str, list[tuple[str, str]]]] = [
    ("nothing", []),
    ("no id", changed("webhook-id", None)),
    ("no time", changed("webhook-timestamp", None)),
    ("no signature", changed("webhook-signature", None)),
    ("an empty signature", changed("webhook-signature", "")),
    ("another id", changed("webhook-id", "msg_other")),
    ("another time", changed("webhook-timestamp", "1614265331")),
    ("wrong secret", pairs(OTHER)),
    ("a later version", changed("webhook-signature", "v2" + RIGHT[2:])),
    ("no version", changed("webhook-signature", RIGHT[3:])),
    ("another case", changed("webhook-signature", RIGHT.swapcase())),
    ("cut", changed("webhook-signature", RIGHT[:-1])),
    ("more", changed("webhook-signature", RIGHT + "=")),
    ("not ASCII", changed("webhook-signature", "v1,é☃\udcff")),
    ("too many", changed("webhook-signature", " ".join(["v1,AAAA"] * 16 + [RIGHT]))),
    ("long", changed("webhook-signature", "v1," + "A" * 100_000)),
    ("two ids", [*pairs(), ("webhook-id", ID)]),
    ("two times", [*pairs(), ("Webhook-Timestamp", "1614265330")]),
    ("two signatures", [*pairs(), ("webhook-signature", RIGHT)]),
    ("time with a sign", pairs(time="+1614265330")),
    ("time with a space", pairs(time=" 1614265330")),
    ("time with zeros", pairs(time="0001614265330")),
    ("time in other digits", pairs(time="١٦١٤٢٦٥٣٣٠")),
    ("time with a fraction", pairs(time="1614265330.0")),
    ("no number", pairs(time="now")),
    ("years long", pairs(time="9" * 4_000)),
    ("empty id", pairs(id="")),
    ("id with a full stop", pairs(id="a.b")),
    ("id with a line break", pairs(id="a\nb")),
    ("id with a letter", pairs(id="ä")),
    ("long id", pairs(id="i" * 129)),
    ("too old", pairs(time=str(int(NOW) - 301))),
    ("too new", pairs(time=str(int(NOW) + 301))),
]


@pytest.mark.parametrize("given", [given for _, given in REFUSED], ids=[name for name, _ in REFUSED])
def test_what_is_not_signed_so_is_refused(given: list[tuple[str, str]]) -> None:
    with pytest.raises(Unverified):
        verify_signed([PUBLISHED], given, BODY, now=NOW)


def test_a_signature_counts_for_no_other_body_and_no_other_division_of_it() -> None:
    for body in (BODY + b" ", BODY[:-1], b"", BODY.replace(b"2", b"3", 1)):
        with pytest.raises(Unverified):
            verify_signed([PUBLISHED], pairs(), body, now=NOW)
    # `a.1614265330.1614265330.body` is the same text for two ids and times: the one with a full stop is no id
    body = b"1614265330.body"
    given = [("webhook-id", "a.1614265330"), ("webhook-timestamp", "1614265330")]
    given.append(("webhook-signature", by_hand(PUBLISHED, "a", "1614265330", body)))
    with pytest.raises(Unverified):
        verify_signed([PUBLISHED], given, b"body", now=NOW)


@pytest.mark.parametrize("seconds", [-300, -1, 0, 299.5, 300])
def test_clocks_may_differ_by_five_minutes(seconds: float) -> None:
    assert verify_signed([PUBLISHED], pairs(), BODY, now=NOW + seconds).id == ID


def test_without_a_secret_nothing_counts() -> None:
    nobody = "whsec_" + base64.b64encode(b"\0" * 32).decode()
    with pytest.raises(Unverified):
        verify_signed([], pairs(nobody), BODY, now=NOW)
    signed = [
        ("x-github-delivery", "1"),
        ("x-hub-signature-256", "sha256=" + hmac_by_hand(nobody.encode(), BODY).hex()),
    ]
    with pytest.raises(Unverified):
        verify_github([], signed, BODY)


GITHUB = "sha256=" + hmac_by_hand(TEXT.encode(), BODY).hex()


@pytest.mark.parametrize(
    "given",
    [
        [],
        [("x-github-delivery", "1")],
        [("x-hub-signature-256", GITHUB)],
        [("x-github-delivery", ""), ("x-hub-signature-256", GITHUB)],
        [("x-github-delivery", "1"), ("x-hub-signature-256", GITHUB.upper())],
        [("x-github-delivery", "1"), ("x-hub-signature-256", GITHUB[7:])],
        [("x-github-delivery", "1"), ("x-hub-signature", GITHUB)],
        [("x-github-delivery", "1"), ("x-hub-signature-256", GITHUB), ("X-Hub-Signature-256", GITHUB)],
        [("x-github-delivery", "1"), ("x-hub-signature-256", "sha256=" + "0" * 64)],
        [("x-github-delivery", "1"), ("x-hub-signature-256", "sha1=" + hashlib.sha1(BODY).hexdigest())],
    ],
)
def test_what_github_did_not_sign_is_refused(given: list[tuple[str, str]]) -> None:
    with pytest.raises(Unverified):
        verify_github([TEXT], given, BODY)


def test_githubs_delivery_id_is_not_signed_so_a_new_one_makes_no_new_delivery() -> None:
    signed = ("x-hub-signature-256", GITHUB)
    first, again = (verify_github([TEXT], [("x-github-delivery", id), signed], BODY) for id in ("1", "2"))
    assert first == again
    whsec = "sha256=" + hmac_by_hand(PUBLISHED.encode(), BODY).hex()  # the text as it was pasted
    assert verify_github([PUBLISHED], [("x-github-delivery", "1"), ("x-hub-signature-256", whsec)], BODY) == first


@pytest.mark.parametrize("secret", ["", "short", "whsec_", "whsec_!!!", "whsec_c2hvcnQ=", "whsec_" + "A" * 33])
def test_a_weak_or_damaged_secret_signs_nothing(secret: str) -> None:
    for use in (
        lambda: signing.headers([secret], b"", id="m1", now=NOW),
        lambda: verify_signed([secret], pairs(), BODY, now=NOW),
        lambda: verify_github([secret], [("x-github-delivery", "1"), ("x-hub-signature-256", GITHUB)], BODY),
    ):
        with pytest.raises(UsageError) as caught:
            use()
        assert len(secret) < 7 or secret not in str(caught.value)


@pytest.mark.parametrize("given", [{"id": ""}, {"id": "a.b"}, {"id": "ä"}, {"id": "i" * 129}])
def test_nothing_is_sent_under_an_id_that_nobody_could_verify(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        signing.headers([PUBLISHED], b"", now=NOW, **given)


def test_new_secrets_differ_and_sign() -> None:
    one, two = signing.new_secret(), signing.new_secret()
    assert one != two
    assert len(signing.key_of(one)) == 32
