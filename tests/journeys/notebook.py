"""A notebook's cell, run as JupyterLab's page runs it: a kernel by REST, the cell over its WebSocket."""
import json
import uuid


async def run_cell(tab, code: str) -> str:
    """What it prints first. `tab` has been let in by a ticket."""
    page = tab.get("/lab")
    assert (page.status, b"JupyterLab" in page.body) == (200, True)
    xsrf = page.headers["set-cookie"].partition(";")[0]
    tab.cookie = f"{tab.cookie}; {xsrf}"
    kernel = tab.send("POST", "/api/kernels", {"name": "python3"}, **{"X-XSRFToken": xsrf.partition("=")[2]})
    assert kernel.status == 201
    header = {"msg_id": uuid.uuid4().hex, "username": "", "session": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.3"}
    cell = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}
    asked = {"header": header, "parent_header": {}, "metadata": {}, "content": cell, "channel": "shell", "buffers": []}
    async with tab.socket(f"/api/kernels/{kernel.json['id']}/channels?session_id={header['session']}") as ours:
        await ours.send_str(json.dumps(asked))
        while (said := json.loads(await ours.receive_str()))["msg_type"] != "stream":
            pass
    return said["content"]["text"]
