// The choice of the processor level. With REGARD_PORTABLE there is only the portable one.
#include "kernels.h"

#include <cstring>

#if defined(__x86_64__) && !defined(REGARD_PORTABLE)
#define REGARD_X86
#endif

namespace regard {

namespace portable {
const Kernels* kernels(const char* name);
}
#if defined(REGARD_X86)
namespace avx2 {
const Kernels* kernels(const char* name);
}
namespace avxvnni {
const Kernels* kernels(const char* name);
}
namespace avx512 {
const Kernels* kernels(const char* name);
}
namespace avx512vnni {
const Kernels* kernels(const char* name);
}
#endif

const Kernels* kernels_of(const char* level) {
    struct Level {
        const char* name;
        bool is_present;
        const Kernels* (*kernels)(const char* name);
    };
#if defined(REGARD_X86)
    __builtin_cpu_init();
    const bool has_avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
    const Level levels[] = {
#if defined(REGARD_X86)
        {"avx512vnni", has_avx512 && __builtin_cpu_supports("avx512vnni"), avx512vnni::kernels},
        {"avx512", has_avx512, avx512::kernels},
        {"avxvnni", has_avx2 && __builtin_cpu_supports("avxvnni"), avxvnni::kernels},
        {"avx2", has_avx2, avx2::kernels},
#endif
        {"portable", true, portable::kernels}};
    for (const Level& one : levels)
        if (one.is_present && (!level || !*level || !std::strcmp(level, one.name))) return one.kernels(one.name);
    return nullptr;
}

}  // namespace regard
