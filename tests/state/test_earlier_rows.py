"""What a state holds that was written before there were commands: it means what it meant.

The rows are bytes that an earlier version wrote.
"""

import base64

import msgspec
import pytest

from bailiwick.audit import Record
from bailiwick.grant import Grant, Root, User
from bailiwick.operations import ALL_ACCESS, FILE_ACCESS
from bailiwick.state.approvals import questions, rules
from bailiwick.state.grants.rows import decode_grant, encode_grant
from bailiwick.state.ledger.encoding import decode, encode_record, keep_path
from tests.state.rooms import opened, standing_grant

STANDING = (
    "jG}2|qH{5)b9G{BWn*-!VP|D-bYF6HZaONYa&K>Ru6J*8Yjbd6V`VyIWo>V!VPj)ub90!aY-w|JrFU{^bY-Y*WprU=VR"
    "T`na%Ev;q-}3@Wu<pvbYp0zVRB<=X?A6%WMyn+bY-M)VRUGrE~jB^Y;SjEWRRw0Wo~I@WRRwEWnpt~ZlI=fZ*_8GWu#+"
    "oa%HMzcyMWQWpiI)bik@*cyMWQWpiI?Zos8+b#HWGzy"
)
QUESTION = (
    "lBr>5Wo~p|a&>Or02HTlbz*8|V|0SAV{dMDWpZ<2bZKvHUuk5aW2SO-ZeM9+p>m{hZ*O$2cW-iQb8ul}WjbVKZEvY>aA"
    "k5~bZKvHrFU{^bY-M=WpZMwcXDZTWnXk<cyy*=V`F7=bCIQYa%psBrEp<%XmgRFVXJUqbZB#5bZ>NFYyqrrVRUG7Uvp?"
    "-GBq}$FfglRWpi|CZeet3Z*IV*aB^>LaCD(?r*m(0a${w4k)d*@WMyVyb!>E`WMyu7rgCLrb8l{-sAqCvZggL1WT9uOa"
    "%FLKWpi|2X=I^srDk$(Zgit#Y-y)(a%FaDWp{<9b7)~QH8#Mlb7)~QH8x*jWoB=3Wx%9!X?kVAq-1GkX27mwX=Y|$baH"
    "iWV_|e<WWuI&VRC0>bfICXVRC16ZDnqBbEj}&a%FCGbEaZ)VQyn+pa"
)
BINDING = "3gm{h*#Is|Jn${k;xtlUGxd!_V;7!bCIT>tVbF)o"
RULE = (
    "j-qK~ta4>-Wo=?*a%E&KF{g8NVrpe$bgN-!Wo~p|a&>MxDx`96Z*;DAZ*psMaA9L*I%H*SZ>VQ-VQzF^X=K2uZ*XODVR"
    "UJ4Zl!l}X>?_#VPj)ub90fUcXDZTWu<UobZB#tp<%0JWpi|CZeet3Z*IV*WoBk&V|1lqY;13LrgCLrb8l{-t6^|(a&LB"
    "FY+q?)p<$w8d8l=BWpX-UZf>e$a%Ew3Wn^D&a{;Dea$#;`XrK"
)
ABOUT = "X5!rl&8~Gny}=5iur%8W6STFvZhz0PfRZ-m>n5)d"
RECORD = (
    "+yE2-p>e2nb7gWmVQy}sXfdvLZ*psMaA9L*I%H*SZ=`Z%VPvUtWnpArbY*ySp<%$Mb9G~5Wpi`Dz>uH;z`zBjaCvlSZ*IT"
)


def written(text):
    return base64.b85decode(text)


@pytest.mark.spec("EXEC-1")
def test_a_grant_of_everything_there_was_does_not_come_to_hold_execute():
    grant = decode_grant("standing", written(STANDING))
    assert grant.access == FILE_ACCESS
    assert decode_grant("standing", encode_grant(grant)) == grant


@pytest.mark.spec("EXEC-1")
def test_a_grant_says_in_its_row_what_it_holds_and_one_that_does_not_say_has_no_execute():
    root = Root(kind="workspace", id="demo")
    body = encode_grant(Grant(id="h", subject=User("ann"), root=root, access=ALL_ACCESS))
    kind, row = msgspec.msgpack.decode(body)
    assert set(row["access"]) == ALL_ACCESS
    del row["access"], row["limits"]
    assert decode_grant("held", msgspec.msgpack.encode((kind, row))).access == FILE_ACCESS


@pytest.mark.spec("EXEC-1", "AUTH-5")
async def test_a_state_with_such_a_grant_opens_and_the_grant_is_as_it_was(tmp_path):
    async with opened(tmp_path) as rooms:
        await rooms.grants.add(standing_grant("s1"), by="user:ann", front="cli")

        def as_before(connection):
            connection.execute("UPDATE grants SET body = ?", (written(STANDING),))

        await rooms.database.write_control(as_before)
    async with opened(tmp_path) as rooms:
        (grant,) = rooms.grants.standing()
        assert grant.access == FILE_ACCESS
        assert "execute" not in grant.access


@pytest.mark.spec("EXEC-1", "ASK-2")
def test_questions_answers_and_records_are_the_bytes_they_were():
    """Else what waits for an answer would be asked anew, and a chain could not be verified."""
    question = questions._questions.decode(written(QUESTION))
    assert question.command is None
    assert questions.binding_of(question) == written(BINDING)
    rule = rules._decode(written(RULE))
    assert rule.command is None
    assert rules._about(rule) == written(ABOUT)
    grant = Grant(id="h1", subject=User("ann"), root=Root(kind="workspace", id="demo"))
    record = Record(
        1, "q", grant, "read", "read_text", "a", None, "success", None, None, (), 1, None, None, 5,
        "python",
    )  # fmt: skip
    assert encode_record(record, keep_path) == written(RECORD)
    assert decode(1, written(RECORD)).details == {}
