/* The limits file: lines of words. "fairyshare 1", then "gpu UUID memory_bytes=N sm_percent=N context_bytes=N" for each, and "mps FOLDER".
   Words that we do not know are passed over. Anything else that is wrong, a missing last newline included, makes all of it worthless: closed. */
#include "share.h"

#include <fcntl.h>

enum { MOST_BYTES = 16384, WHOLE_PERCENT = 100 };

struct reader {
    const char *at, *end;
};

static bool is_space(char letter) {
    return letter == ' ' || letter == '\t';
}

/* The next word of this line, ended by 0 in `into`; false: no more, or it is too long. */
static bool word(struct reader *line, char *into, size_t room) {
    size_t length = 0;
    while (line->at < line->end && is_space(*line->at))
        line->at++;
    for (; line->at < line->end && !is_space(*line->at); line->at++) {
        if (length + 1 >= room)
            return false;
        into[length++] = *line->at;
    }
    into[length] = 0;
    return length > 0;
}

static bool number(const char *text, uint64_t *into) {
    *into = 0;
    for (const char *digit = text; *digit != 0; digit++) {
        if (*digit < '0' || *digit > '9' || *into > (UINT64_MAX - 9) / 10)
            return false;
        *into = *into * 10 + (uint64_t)(*digit - '0');
    }
    return *text != 0;
}

static int hex(char letter) {
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    letter |= 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

bool uuid_of(const char *text, uint8_t uuid[UUID_BYTES]) {
    if (!begins_with(text, "GPU-") && !begins_with(text, "MIG-"))
        return false;
    const char *letter = text + 4;
    for (int i = 0; i < UUID_BYTES; i++) {
        letter += (i == 4 || i == 6 || i == 8 || i == 10) && *letter == '-';
        int high = hex(letter[0]), low = high < 0 ? -1 : hex(letter[1]);
        if (low < 0)
            return false;
        uuid[i] = (uint8_t)(high * 16 + low);
        letter += 2;
    }
    return *letter == 0;
}

static bool is_twice(const struct limits *limits, const struct gpu *gpu) {
    for (int i = 0; i < limits->count; i++) {
        bool is_same = true;
        for (int j = 0; j < UUID_BYTES; j++)
            is_same = is_same && limits->gpus[i].uuid[j] == gpu->uuid[j];
        if (is_same)
            return true;
    }
    return false;
}

static bool read_gpu(struct reader *line, struct limits *into) {
    char text[LONGEST_PATH];
    struct gpu gpu = {.sm_percent = WHOLE_PERCENT};
    bool has_memory = false;
    uint64_t value;
    if (into->count == LEDGER_GPUS || !word(line, gpu.word, sizeof gpu.word) || !uuid_of(gpu.word, gpu.uuid) || is_twice(into, &gpu))
        return false;
    while (word(line, text, sizeof text)) {
        if (begins_with(text, "memory_bytes=")) {
            has_memory = number(text + 13, &gpu.memory_bytes);
            if (!has_memory)
                return false;
        } else if (begins_with(text, "context_bytes=")) {
            if (!number(text + 14, &gpu.context_bytes))
                return false;
        } else if (begins_with(text, "sm_percent=")) {
            if (!number(text + 11, &value) || value < 1 || value > WHOLE_PERCENT)
                return false;
            gpu.sm_percent = (int)value;
        }
    }
    if (!has_memory || line->at < line->end)
        return false;
    into->gpus[into->count++] = gpu;
    return true;
}

static bool read_line(struct reader *line, struct limits *into) {
    char first[LONGEST_PATH];
    if (!word(line, first, sizeof first))
        return line->at == line->end; /* empty, or a word without end */
    if (same_text(first, "gpu"))
        return read_gpu(line, into);
    if (same_text(first, "mps"))
        return word(line, into->mps, sizeof into->mps - sizeof "/control") && into->mps[0] == '/';
    return true;
}

static bool read_lines(struct reader file, struct limits *into) {
    for (bool is_first = true; file.at < file.end; is_first = false) {
        struct reader line = {file.at, file.at};
        while (line.end < file.end && *line.end != '\n')
            line.end++;
        if (line.end == file.end)
            return false; /* cut short: a number may lack its last digits */
        file.at = line.end + 1;
        if (is_first) {
            char name[16], version[16];
            if (!word(&line, name, sizeof name) || !word(&line, version, sizeof version) || !same_text(name, "fairyshare") || !same_text(version, "1"))
                return false;
        } else if (!read_line(&line, into))
            return false;
    }
    return into->count > 0;
}

void limits_read(struct limits *into) {
    char *text = map_private(MOST_BYTES); /* a thread's stack may be smaller */
    int file = open_file(FAIRY_LIMITS, O_RDONLY);
    long size = file < 0 || text == NULL ? -1 : read_at(file, text, MOST_BYTES, 0);
    if (file >= 0)
        close_file(file);
    bool is_good = size > 0 && size < MOST_BYTES && read_lines((struct reader){text, text + size}, into);
    if (!is_good)
        *into = (struct limits){0};
    if (text != NULL)
        unmap(text, MOST_BYTES);
    __atomic_store_n(&into->state, is_good ? LIMITS_GOOD : LIMITS_BROKEN, __ATOMIC_RELEASE);
}
