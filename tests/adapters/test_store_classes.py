"""Classes, their members and links, the same in both databases."""
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from store_builders import a_store

from gpufairy.core.classes import Bounds, Homes, Member, SchoolClass, Standing
from gpufairy.store.classes import ClassLink

NOW = datetime(2026, 11, 16, tzinfo=UTC)
TAUGHT = SchoolClass(
    "cs231n", "cs231n", NOW, NOW + timedelta(days=90), NOW, "root", due=NOW + timedelta(days=80), preset="small", gpus="0.5", image="a:1",
    quota=Bounds(8.0, 200.0, 40), each=Bounds(1.0), teachers=("prof",), homes=Homes.ASIDE,
)
KIM = Member("cs231n", "kim", "김철수", "kim@lab.org", "ssh-rsa x", Standing.NEW, False, "nlp", NOW)


async def test_a_class_and_its_members_come_back_as_they_were(store_url):
    async with a_store(store_url) as store:
        await store.classes.put(TAUGHT, [KIM, Member("cs231n", "lee")])
        await store.classes.put(replace(TAUGHT, frozen=True, archived_at=NOW), [replace(KIM, standing=Standing.IN)])
    async with a_store(store_url) as store:
        assert await store.classes.all() == [replace(TAUGHT, frozen=True, archived_at=NOW)]
        assert await store.classes.members() == [replace(KIM, standing=Standing.IN), Member("cs231n", "lee")]
        await store.classes.remove("cs231n")
        assert (await store.classes.all(), await store.classes.members()) == ([], [])


async def test_a_student_has_one_link_and_it_is_used_once(store_url):
    async with a_store(store_url) as store:
        first, second = (ClassLink(name, "cs231n", "kim", NOW, NOW + timedelta(days=1)) for name in ("one", "two"))
        await store.classes.put_links([first])
        await store.classes.put_links([second])
        assert await store.classes.link("one") is None
        assert await store.classes.link("two") == second
        assert await store.classes.linked() == {"kim"}
        assert [await store.classes.use_link("two"), await store.classes.use_link("two")] == [True, False]
        await store.classes.put_links([first])
        await store.classes.drop_links("cs231n")
        assert await store.classes.linked() == set()
