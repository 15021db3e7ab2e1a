/* A request's bytes, taken apart. Numbers are little-endian, strings end with a zero byte; nothing is trusted. */
#include <stdlib.h>
#include <string.h>

#include "porter.h"

uint32_t take_number(struct reader *from, size_t bytes) {
    uint32_t number = 0;
    if ((size_t)(from->end - from->at) < bytes)
        from->broken = true;
    if (from->broken)
        return 0;
    for (size_t i = 0; i < bytes; i++)
        number |= (uint32_t)from->at[i] << (8 * i);
    from->at += bytes;
    return number;
}

char *take_string(struct reader *from) {
    static char empty[] = "";
    uint8_t *end = from->broken ? NULL : memchr(from->at, 0, (size_t)(from->end - from->at));
    if (end == NULL) {
        from->broken = true;
        return empty;
    }
    char *string = (char *)from->at;
    from->at = end + 1;
    return string;
}

char **take_strings(struct reader *from) {
    uint32_t count = take_number(from, 4);
    if (count > (size_t)(from->end - from->at)) /* each has at least its zero byte */
        from->broken = true;
    char **strings = from->broken ? NULL : calloc((size_t)count + 1, sizeof *strings);
    if (strings == NULL) {
        from->broken = true;
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        strings[i] = take_string(from);
    return strings;
}
