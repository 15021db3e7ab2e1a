"""A data folder that lies deeper than the address of a socket is long: 107 bytes."""
import stat

from gpufairy.main.containers import API_SOCKET, api_folder, api_listener


def test_the_socket_of_the_api_is_made_however_deep_its_folder_lies(tmp_path):
    deep = tmp_path / ("x" * 200)
    deep.mkdir()
    with api_listener(deep):
        assert stat.S_ISSOCK((api_folder(deep) / API_SOCKET).stat().st_mode)
