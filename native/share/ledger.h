/* The ledger: one file a container, which says what each of its processes holds of each GPU. Written by all of them, made by the server.
   Little-endian, version 1:
     0      8 bytes   "fairyled"
     8      u32       version
     12     u32       LEDGER_SLOTS, 16 u32 LEDGER_GPUS: as compiled, or the file is refused
     20     u32       how many slots were ever used: those beyond need not be looked at
     4096   u64       asked[LEDGER_GPUS][LEDGER_SLOTS]: bytes that a process wants to take and is just checking
     …      u64       held [LEDGER_GPUS][LEDGER_SLOTS]: bytes that it may take, or has
     …      u32       pid  [LEDGER_SLOTS]: for people to read; nothing is decided by it
   A GPU's column is the number of its line in the limits file. A slot belongs to a living process while its byte, LEDGER_SLOT_BYTE + slot, is
   locked (an OFD lock, which the kernel drops when the process is gone, however it went): what an unlocked slot holds is nobody's.
   LEDGER_WHOLE_BYTE is locked by whoever decides when memory is short. Both lie beyond the end of the file.
   The file is its user's to scribble on: sizes are constants, numbers are summed without wrapping, and nothing in it is an address.
   What remains to the user's own harm: a file cut short while it is used ends the programs that use it (SIGBUS). */
#ifndef LEDGER_H
#define LEDGER_H

#include <stdint.h>

#define LEDGER_MAGIC "fairyled"
enum {
    LEDGER_VERSION = 1,
    LEDGER_SLOTS = 1024, /* processes at once; MPS serves 48 clients */
    LEDGER_GPUS = 16,
    LEDGER_WHOLE_BYTE = 1 << 30,
    LEDGER_SLOT_BYTE = LEDGER_WHOLE_BYTE + 1,
};

struct ledger {
    char magic[8];
    uint32_t version, slots, gpus, used_slots;
    char unused[4096 - 24];
    uint64_t asked[LEDGER_GPUS][LEDGER_SLOTS];
    uint64_t held[LEDGER_GPUS][LEDGER_SLOTS];
    uint32_t pid[LEDGER_SLOTS];
};
_Static_assert(sizeof(struct ledger) == 4096 + 16 * LEDGER_GPUS * LEDGER_SLOTS + 4 * LEDGER_SLOTS, "the ledger's layout is fixed");

#endif
