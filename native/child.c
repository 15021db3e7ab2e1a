/* From fork to exec: the session's own command, and what is opened beside it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "porter.h"

static struct rlimit given_files;

void remember_open_files(void) {
    if (getrlimit(RLIMIT_NOFILE, &given_files) != 0)
        given_files = (struct rlimit){1024, 1024};
    struct rlimit ours = {given_files.rlim_max, given_files.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &ours); /* refused: then fewer connections at once */
}

void begin_child(void) {
    (void)setsid(); /* a child just forked leads no group, so this cannot fail */
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL); /* fails for those that have no other */
    (void)setrlimit(RLIMIT_NOFILE, &given_files);
    /* Last: a signal sent to the child until now waits for this line, and then ends it. */
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void open_terminal(const struct wanted *wanted, struct started *made, int *slave) {
    int unlocked = 0;
    struct winsize size = {.ws_col = wanted->columns, .ws_row = wanted->rows};
    made->master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (made->master < 0 || ioctl(made->master, TIOCSPTLCK, &unlocked) != 0 || ioctl(made->master, TIOCSWINSZ, &size) != 0)
        return;
    *slave = ioctl(made->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC); /* by descriptor: no path to be led astray by */
}

static bool is_on_path(const char *name) {
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];
    for (const char *end; path != NULL; path = *end == ':' ? end + 1 : NULL) {
        end = strchrnul(path, ':');
        int size = snprintf(candidate, sizeof candidate, "%.*s/%s", (int)(end - path), path, name);
        if (size > 0 && (size_t)size < sizeof candidate && access(candidate, F_OK) == 0)
            return true;
    }
    return false;
}

/* After execvp, which says "denied" of a command that is nowhere as soon as one folder of PATH may not be read. */
static int why_not_run(const char *name) {
    int why = errno;
    return why == EACCES && strchr(name, '/') == NULL && !is_on_path(name) ? ENOENT : why;
}

static void tell(int to, int why) {
    if (write(to, &why, sizeof why) != (ssize_t)sizeof why)
        _exit(NOT_FOUND);
}

static _Noreturn void become(const struct wanted *wanted, const int streams[3], int told) {
    begin_child();
    if (wanted->terminal && ioctl(streams[0], TIOCSCTTY, 0) != 0)
        goto failed;
    for (int i = 0; i < 3; i++)
        if (dup2(streams[i], i) < 0)
            goto failed;
    if (chdir(wanted->folder) != 0 && chdir("/") != 0)
        goto failed;
    for (char **pair = wanted->env; *pair != NULL; pair++)
        if (putenv(*pair) != 0)
            goto failed;
    execvp(wanted->argv[0], wanted->argv);
    errno = why_not_run(wanted->argv[0]);
failed:
    tell(told, errno);
    _exit(NOT_FOUND);
}

static void close_kept_errno(int descriptor) {
    int why = errno;
    if (descriptor >= 0)
        (void)close(descriptor);
    errno = why;
}

bool start_wanted(const struct wanted *wanted, struct started *made) {
    int told[2], slave = -1;
    made->master = -1;
    made->pid = -1;
    if (pipe2(told, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    if (wanted->terminal)
        open_terminal(wanted, made, &slave);
    if (!wanted->terminal || slave >= 0)
        made->pid = fork();
    if (made->pid == 0) {
        const int terminal[3] = {slave, slave, slave};
        become(wanted, wanted->terminal ? terminal : wanted->streams, told[1]);
    }
    made->told = told[0];
    close_kept_errno(told[1]); /* so that its end means: the child runs, or is gone */
    close_kept_errno(slave);
    if (made->pid > 0)
        return true;
    close_kept_errno(made->master);
    close_kept_errno(told[0]);
    return false;
}

static void say(const char *format, const char *what) {
    (void)dprintf(STDOUT_FILENO, format, what); /* a full disk: the exit code still says it */
}

static _Noreturn void become_batch(char **argv, const char *folder) {
    begin_child();
    if (folder != NULL && chdir(folder) != 0) {
        say("fairy: there is no work folder %s in the session, or it may not be entered\n", folder);
        _exit(NOT_RUNNABLE);
    }
    execvp(argv[0], argv);
    int why = why_not_run(argv[0]);
    if (why == ENOENT || why == ENOTDIR) {
        say("fairy: there is no command %s in the session\n", argv[0]);
        _exit(NOT_FOUND);
    }
    say("fairy: the command %s cannot be run: ", argv[0]);
    say("%s\n", strerror(why));
    _exit(NOT_RUNNABLE);
}

pid_t start_batch(char **argv, const char *log, const char *folder) {
    int output = -1;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0)
        return -1;
    if (log != NULL && (output = open(log, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        bool joined = dup2(nothing, 0) == 0 && (output < 0 || (dup2(output, 1) == 1 && dup2(output, 2) == 2));
        if (!joined)
            _exit(NOT_STARTED);
        become_batch(argv, folder);
    }
    close_kept_errno(nothing);
    close_kept_errno(output);
    return pid;
}
