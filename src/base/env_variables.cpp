// The table of environment variables. docs/compiler.md shows it (`systole doctor --variables --markdown`).

#include "base/env.h"

namespace systole::env {

namespace {

constexpr std::uint64_t kDayMs = 86'400'000, kMostSeconds = 1'000'000, kMostThreads = 1024;

constexpr Variable kVariables[] = {
    {"SYSTOLE_JIT", Kind::word, "the first that works",
     "who compiles kernels for `cpu`: `clang` in this process, `cc` as a command; `portable`: nobody, steps "
     "are "
     "evaluated",
     "clang cc portable"},
    {"SYSTOLE_CLANG_PATH", Kind::text, "beside the library or the program",
     "`libsystole_clang.so` or its folder"},
    {"SYSTOLE_ISA", Kind::word, "the best that the processor has", "instructions that kernels for `cpu` use",
     "sse2 avx2 avx512"},
    {"SYSTOLE_THREADS", Kind::whole,
     "as many as the process may use by its affinity and the quotas of its control groups",
     "threads of `cpu` and of the evaluation; `0`: the default", "", 0, kMostThreads},
    {"SYSTOLE_ONEDNN", Kind::text,
     "the first `lib/libdnnl.so.3` among the plugins' folders (`SYSTOLE_PLUGIN_PATH`), then where the loader "
     "looks, if it "
     "is version 3.2, which is tested",
     "the path of the oneDNN library for `cpu`, an error when it cannot be used; `0`: none, all kernels are "
     "generated"},
    {"SYSTOLE_OPENCL_OPTIONS", Kind::text, "none",
     "more options for the compiler of the OpenCL driver: `-g`, say"},
    {"SYSTOLE_CUDA_LIBRARIES", Kind::text, "none",
     "folders of NVIDIA's libraries, separated by `:`, looked in before the loader's and the toolkit's"},
    {"SYSTOLE_CUDA_PREFER", Kind::text, "`cudnn.rnn,early_launch`",
     "where a library and generated kernels both do, what the library takes: `cudnn.pooling`, "
     "`cudnn.few_channels`, `cudnn.batch_norm`, `cudnn.rnn`, `cudnn.rnn_grad`, `cublasLt` (small products "
     "too), "
     "separated by commas, `-` before one that it shall not; `-early_launch`: no kernel of a graph is "
     "launched "
     "before the one before it ends"},
    {"SYSTOLE_MATH", Kind::word, "`f32`",
     "`tf32`: products of f32 arrays in what the matrix units take, bf16 on a TPU", "f32 tf32"},
    {"SYSTOLE_DETERMINISTIC", Kind::flag, "`0`",
     "`1`: a program gives the same bits in every run; `set_deterministic(true)` in a program, "
     "[cuda.md](cuda.md#the-same-bits-in-every-run)"},
    {"SYSTOLE_CHECK", Kind::flag, "`0`",
     "`1`: compiled functions, evaluations of Tensors and `systole run` count the indices outside of every "
     "gather, scatter, dynamic slice and loss of labels, and an error names the op "
     "([tensors.md](tensors.md#indices-outside)); graphs are the same without it"},
    {"SYSTOLE_TUNE", Kind::flag, "`1`",
     "`0`: of a library's or a kernel's ways on a GPU, and of oneDNN's and generated kernels' on a "
     "processor, the "
     "first is taken, and none is timed"},
    {"SYSTOLE_HUGE_PAGES", Kind::flag, "`1`",
     "`0`: arrays of 2 MB and more on `cpu` do not ask for pages of 2 MB; read once"},
    {"SYSTOLE_TRACE", Kind::text, "none",
     "a file for the timeline of compilation and of every step, for Perfetto or chrome://tracing; `%p` is "
     "the "
     "process. A file that holds anything but a timeline is left as it is, with a warning. On a GPU of "
     "NVIDIA's it "
     "has [what ran there, and when](cuda.md#reading-a-trace). In a program: `systole/runtime/timeline.h`. "
     "For "
     "totals, see [profiling](profiling.md)"},
    {"SYSTOLE_LOG", Kind::word, "`warn`",
     "what goes to standard error: `warn` warnings, each once; `info` and `debug` also what is found, chosen "
     "and "
     "compiled; `off` nothing. A program takes the lines itself by `set_log_sink` (`systole/base/log.h`)",
     "debug info warn off"},
    {"SYSTOLE_DUMP", Kind::text, "none", "a folder for the graph after every pass"},
    {"SYSTOLE_VERIFY", Kind::flag, "`0`", "`1`: graphs are verified after every pass in release builds too"},
    {"SYSTOLE_CACHE", Kind::flag, "`1`",
     "`0`: compiled programs are not kept on disk; a switch: `SYSTOLE_CACHE_DIR` names the folder, and a "
     "folder here is "
     "an error"},
    {"SYSTOLE_CACHE_DIR", Kind::text, "`$XDG_CACHE_HOME/systole`, else `~/.cache/systole`",
     "where they are kept. It must belong to you, and only you may write to it; folders above it may be "
     "anybody's, "
     "as `/tmp` is"},
    {"SYSTOLE_CACHE_LIMIT", Kind::size, "`4G`", "bytes of them; what was used longest ago goes first"},
    {"SYSTOLE_CACHE_MIN_MS", Kind::whole, "`50`", "milliseconds: what compiled faster is not kept", "", 0,
     kDayMs},
    {"SYSTOLE_PJRT_PLUGIN", Kind::text, "none",
     "path of a plugin; its name comes from the file: `libtpu.so` is `tpu`, `xla_cuda_plugin.so` is `cuda`"},
    {"SYSTOLE_PLUGIN_PATH", Kind::text, "none",
     "folders with plugin packages in them, separated by `:`; they come before `systole/plugins` beside the "
     "library, "
     "`../lib/systole/plugins` beside the program, and the `.deps` of a build tree"},
    {"SYSTOLE_PJRT_OPTIONS", Kind::text, "none",
     "options for making a client: `cpu:cpu_device_count=8,cuda:preallocate=false`"},
    {"SYSTOLE_PJRT_TIMEOUT", Kind::seconds, "`60`", "what a plugin may take to start the first time", "", 0,
     kMostSeconds},
    {"SYSTOLE_TPU_TIMEOUT", Kind::whole, "`1800`", "seconds that `systole tpu compile` waits for libtpu", "",
     1, kMostSeconds},
};

}  // namespace

std::span<const Variable> variables() { return kVariables; }

}  // namespace systole::env
