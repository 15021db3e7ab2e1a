"""What a job leaves, in a real browser: it stands on the open page when the job is over, and is fetched, never shown."""
import json

import pytest
from bench.server import LiveServer
from chromium import PHONE, a_page

from waits import wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system]

NODE = "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n"
NASTY = '<img src=x onerror="window.broken=1">.html'
WORK = (
    'cd "$FAIRY_RESULTS"; mkdir run; head -c 300000 /dev/zero > run/model.bin; printf \'%s\' \'<script>window.broken=1</script>\' > "$1"; '
    "printf done > out.txt; ln -s /etc/passwd secret; while [ ! -e \"$HOME/go\" ]; do sleep 0.1; done"
)  # fmt: skip
ROWS = "[...document.querySelectorAll('#results tbody tr')].map((row) => row.innerText.trim())"
FETCHED = """(async (href) => { const answer = await fetch(href); return JSON.stringify([answer.status, answer.headers.get('content-type'),
  answer.headers.get('content-disposition'), (await answer.text()).slice(0, 40)]) })"""


async def test_results_stand_on_the_open_page_when_the_job_is_over(tmp_path):
    with LiveServer(tmp_path / "fairy", NODE) as live:
        client = live.client()
        session = client.submit({"name": "job", "command": ["sh", "-c", WORK, "sh", NASTY], "gpus": "0"})
        wait_for_state(client, "job", "RUNNING")
        async with a_page() as page:
            await page.sign_in(client.sign_in_link())
            await page.go(f"{live.url}/sessions/job")
            await page.until("document.querySelector('#results-so-far a[download]') !== null")
            (home,) = (live.data / "sessions" / "home").iterdir()
            (home / "go").touch()
            await page.until(f"{ROWS}.length === 3")
            shown = json.loads(await page.see(f"JSON.stringify({ROWS})"))
            assert [row.split()[0] for row in shown] == ["<img", "out.txt", "run/model.bin"]
            assert shown[2].endswith("293 KiB")
            found = json.loads(await page.told(f"{FETCHED}(document.querySelector('#results a[href$=\"out.txt\"]').href)"))
            assert found[:2] == [200, "application/octet-stream"]
            assert (found[2].split(";")[0], found[3]) == ("attachment", "done")
            assert json.loads(await page.told(f"{FETCHED}('/sessions/{session['id']}/results/secret')"))[0] == 404
            assert await page.see("window.broken") is None
            await page.keep("results")
            await page.wide(PHONE)
            await page.until("document.documentElement.scrollWidth <= 360")
            await page.korean()
            await page.go(f"{live.url}/sessions/{session['id']}")
            await page.shows("압축 파일")
            await page.keep("results-phone-korean")
            assert page.forbidden == []
