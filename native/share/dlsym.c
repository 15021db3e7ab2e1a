/* dlsym and dlvsym. What is none of our business goes on to the real one by a jump, with the caller's own return address on the stack: RTLD_NEXT
   and RTLD_DEFAULT are answered by who asks. The choosers are in resolve.c; they answer a value, and whether it is the last word. */
#if defined(__x86_64__)
#define STANDS_BEFORE(name) \
    __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n" \
            ".byte 0xf3, 0x0f, 0x1e, 0xfa\n" /* endbr64 */ \
            "pushq %rdi\n.cfi_adjust_cfa_offset 8\npushq %rsi\n.cfi_adjust_cfa_offset 8\npushq %rdx\n.cfi_adjust_cfa_offset 8\n" \
            "call fairy_choose_" #name "\nmovq %rdx, %rcx\n" \
            "popq %rdx\n.cfi_adjust_cfa_offset -8\npopq %rsi\n.cfi_adjust_cfa_offset -8\npopq %rdi\n.cfi_adjust_cfa_offset -8\n" \
            "testq %rcx, %rcx\njnz 1f\njmp *fairy_real_" #name "(%rip)\n1: ret\n.cfi_endproc\n.size " #name ", .-" #name "\n")
#elif defined(__aarch64__)
#define STANDS_BEFORE(name) \
    __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", %function\n" #name ":\n.cfi_startproc\n" \
            "hint 34\n" /* bti c */ \
            "stp x29, x30, [sp, #-48]!\n.cfi_adjust_cfa_offset 48\n.cfi_rel_offset x29, 0\n.cfi_rel_offset x30, 8\nmov x29, sp\n" \
            "stp x0, x1, [sp, #16]\nstr x2, [sp, #32]\nbl fairy_choose_" #name "\nmov x16, x0\nmov x17, x1\n" \
            "ldp x0, x1, [sp, #16]\nldr x2, [sp, #32]\nldp x29, x30, [sp], #48\n.cfi_adjust_cfa_offset -48\n.cfi_restore x29\n.cfi_restore x30\n" \
            "cbnz x17, 1f\nadrp x16, fairy_real_" #name "\nldr x16, [x16, #:lo12:fairy_real_" #name "]\nbr x16\n" \
            "1: mov x0, x16\nret\n.cfi_endproc\n.size " #name ", .-" #name "\n")
#endif

STANDS_BEFORE(dlsym);
STANDS_BEFORE(dlvsym);
