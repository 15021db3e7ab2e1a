/* Where commands are looked for, in a container whose image was not looked at before: what `pip install --user` brought first, as in a
   login shell of Debian's, then the image's own, then our tools. FAIRY_TOOLS names their folder; without it PATH is complete already. */
#include <stdio.h>
#include <stdlib.h>

#include "porter.h"

void complete_path(void) {
    const char *tools = getenv("FAIRY_TOOLS"), *home = getenv("HOME"), *path = getenv("PATH");
    char *whole = NULL;
    if (tools == NULL || home == NULL)
        return;
    if (path == NULL || *path == 0)
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"; /* as container engines have it */
    if (asprintf(&whole, "%s/.local/bin:%s:%s", home, path, tools) < 0)
        return;
    (void)setenv("PATH", whole, 1);
    (void)setenv("FAIRY_PATH", whole, 1); /* for login shells: an image's /etc/profile sets PATH anew */
    free(whole);
}
