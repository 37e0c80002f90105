/* Preloaded into a program, hides from it what is wider than a level: HOLD_TO names it, `avx2`, or
 * `avx512`, from which only the tiles of AMX (and AVX10) are taken.
 *
 * ONNX Runtime chooses its kernels by asking cpuid, and has no switch for it. Linux can make cpuid
 * fault for a thread and for the threads it starts (arch_prctl ARCH_SET_CPUID; the processor must
 * have `cpuid_fault`). The handler here runs the instruction with faulting off, takes bits away and
 * steps over it. Faulting ends with exec, so every program that is to be held must preload this. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define BIT(n) (1u << (n))

/* Leaf 7, subleaf 0: AVX-512 F DQ IFMA PF ER CD BW VL; VBMI VBMI2 VNNI BITALG VPOPCNTDQ;
 * 4VNNIW 4FMAPS VP2INTERSECT, AMX-BF16, AVX512-FP16, AMX-TILE, AMX-INT8. */
#define LEAF7_EBX \
    (BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31))
#define LEAF7_ECX (BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14))
#define LEAF7_EDX (BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25))
/* Subleaf 1: AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA; AVX-VNNI-INT8, AVX-NE-CONVERT,
 * AMX-COMPLEX, AVX-VNNI-INT16, AVX10. */
#define LEAF7_1_EAX (BIT(4) | BIT(5) | BIT(21) | BIT(23))
#define LEAF7_1_EDX (BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19))

/* Of these, the tiles. */
#define TILES_LEAF7_EDX (BIT(22) | BIT(24) | BIT(25))
#define TILES_LEAF7_1_EAX BIT(21)
#define TILES_LEAF7_1_EDX (BIT(8) | BIT(19))

static int keeps_avx512;
static int failure = -1; /* errno of the switch, 0 when cpuid faults */
static atomic_uint answered;

static long set_faulting(int allowed) {
    return syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed);
}

static void ask(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
    __asm__ volatile("cpuid"
                     : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3])
                     : "a"(leaf), "c"(subleaf));
}

static void hide(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
    if (leaf == 7 && subleaf == 0) {
        out[1] &= keeps_avx512 ? ~0u : ~LEAF7_EBX;
        out[2] &= keeps_avx512 ? ~0u : ~LEAF7_ECX;
        out[3] &= keeps_avx512 ? ~TILES_LEAF7_EDX : ~LEAF7_EDX;
    } else if (leaf == 7 && subleaf == 1) {
        out[0] &= keeps_avx512 ? ~TILES_LEAF7_1_EAX : ~LEAF7_1_EAX;
        out[3] &= keeps_avx512 ? ~TILES_LEAF7_1_EDX : ~LEAF7_1_EDX;
    } else if (leaf == 0x1d || leaf == 0x1e || leaf == 0x24) {
        memset(out, 0, 4 * sizeof *out); /* AMX tiles, AMX products, AVX10 */
    }
}

static void on_fault(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *code = (const uint8_t *)registers[REG_RIP];
    int error = errno;
    /* A fault for any other reason ends the program as it would have without us. A page fault has
     * an address (si_code > 0, below SI_KERNEL); only then might `code` be unreadable. */
    if (info->si_code != SI_KERNEL || code[0] != 0x0f || code[1] != 0xa2) {
        signal(number, SIG_DFL);
        return;
    }
    uint32_t leaf = (uint32_t)registers[REG_RAX], subleaf = (uint32_t)registers[REG_RCX], out[4];
    set_faulting(1);
    ask(leaf, subleaf, out);
    set_faulting(0);
    hide(leaf, subleaf, out);
    registers[REG_RAX] = out[0];
    registers[REG_RBX] = out[1];
    registers[REG_RCX] = out[2];
    registers[REG_RDX] = out[3];
    registers[REG_RIP] += 2;
    atomic_fetch_add(&answered, 1);
    errno = error;
}

__attribute__((constructor)) static void hold(void) {
    const char *level = getenv("HOLD_TO");
    keeps_avx512 = level && strcmp(level, "avx512") == 0;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    failure = set_faulting(0) == 0 ? 0 : errno;
}

/* For the program that preloads this, to show that it works. */

int held_failure(void) { return failure; }

unsigned held_answered(void) { return atomic_load(&answered); }

void held_ask(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) { ask(leaf, subleaf, out); }

static void *ask_leaf_7(void *out) {
    ask(7, 0, out);
    return NULL;
}

/* Leaf 7 as a new thread sees it. */
int held_ask_in_thread(uint32_t out[4]) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, ask_leaf_7, out);
    return error ? error : pthread_join(thread, NULL);
}
