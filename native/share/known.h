/* The table of names.h as values, for the two ways of asking: by dlsym and by cuGetProcAddress. */
#ifndef KNOWN_H
#define KNOWN_H

#include "share.h"

enum { PLAIN_CALL = 0, TAKES = 1, PER_THREAD = 2 };
struct known {
    const char *symbol, *base;
    void *hook; /* NULL: only used */
    int since;
    uint8_t kind, library;
};
extern const struct known KNOWN[NAMES];
void real_is(enum name name, void *function);

#endif
