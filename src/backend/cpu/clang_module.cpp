// clang and lld as functions of this process: C source in memory to a shared library in memory. The only file
// that knows LLVM. Nothing here ends the process: what clang or lld would do so for comes back as a result.
//
// Files are not used: the source lies in a file system in memory that has nothing else, lld reads the object
// from a memory file and writes to a pipe.

#include "backend/cpu/clang_module.h"

#include <clang/Basic/DiagnosticOptions.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Driver/Compilation.h>
#include <clang/Driver/Driver.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <clang/Frontend/Utils.h>
#include <lld/Common/Driver.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/Process.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "systole/base/export.h"

LLD_HAS_DRIVER(elf)

namespace {

constexpr const char* kSource = "/kernels.c";
constexpr unsigned kStack = 16 << 20;  // the parser and the optimiser recurse

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }
  int number() const { return number_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(number_); }

 private:
  int number_;
};

bool write_all(int file, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.drop_front(static_cast<std::size_t>(n));
  }
  return true;
}

std::string read_all(int file) {
  std::string bytes;
  char part[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return bytes;
    bytes.append(part, static_cast<std::size_t>(n));
  }
}

// The math library of this process; kernels name the one they call, so they load wherever it is installed.
std::string libm() {
  std::string path;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        if (!llvm::StringRef(info->dlpi_name).contains("/libm.so")) return 0;
        *static_cast<std::string*>(found) = info->dlpi_name;
        return 1;
      },
      &path);
  return path;
}

struct Outcome {
  SystoleClangCode code = kSystoleClangFailed;
  std::string bytes;
};

// clang's own writes to a file.
class PreprocessAction final : public clang::PreprocessorFrontendAction {
 public:
  explicit PreprocessAction(llvm::SmallVectorImpl<char>& text) : text_(text) {}

 private:
  void ExecuteAction() override {
    llvm::raw_svector_ostream stream(text_);
    clang::CompilerInstance& compiler = getCompilerInstance();
    clang::DoPrintPreprocessedInput(compiler.getPreprocessor(), &stream,
                                    compiler.getPreprocessorOutputOpts());
  }
  llvm::SmallVectorImpl<char>& text_;
};

bool is_preprocessing(llvm::ArrayRef<const char*> flags) {
  return llvm::any_of(flags, [](llvm::StringRef flag) { return flag == "-E"; });
}

// The object file, with -E the preprocessed source, or what clang says.
Outcome object_of(llvm::StringRef source, llvm::ArrayRef<const char*> flags) {
  Outcome outcome;
  llvm::raw_string_ostream words(outcome.bytes);
  const auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  files->addFile(kSource, 0, llvm::MemoryBuffer::getMemBuffer(source, kSource));
  const auto options = llvm::makeIntrusiveRefCnt<clang::DiagnosticOptions>();
  options->ShowPresumedLoc = 1;  // a program's own source begins with a #line
  const auto ids = llvm::makeIntrusiveRefCnt<clang::DiagnosticIDs>();
  clang::TextDiagnosticPrinter printer(words, options.get());
  clang::DiagnosticsEngine diagnostics(ids, options, &printer, /*ShouldOwnClient=*/false);

  clang::driver::Driver driver("clang", llvm::sys::getDefaultTargetTriple(), diagnostics, "clang", files);
  std::vector<const char*> command = {"clang", "-c", "-xc", "-nostdinc"};
  command.insert(command.end(), flags.begin(), flags.end());
  command.push_back(kSource);
  const std::unique_ptr<clang::driver::Compilation> jobs(driver.BuildCompilation(command));
  if (diagnostics.hasErrorOccurred() || !jobs || jobs->getJobs().size() != 1) return outcome;

  clang::CompilerInstance compiler;
  if (!clang::CompilerInvocation::CreateFromArgs(compiler.getInvocation(),
                                                 jobs->getJobs().begin()->getArguments(), diagnostics))
    return outcome;
  compiler.getFrontendOpts().DisableFree = false;  // the process goes on
  compiler.getCodeGenOpts().DisableFree = false;
  compiler.createFileManager(files);
  compiler.createDiagnostics(&printer, /*ShouldOwnClient=*/false);
  compiler.setVerboseOutputStream(llvm::nulls());  // it counts errors on stderr
  llvm::SmallVector<char, 0> object;
  compiler.setOutputStream(std::make_unique<llvm::raw_svector_ostream>(object));
  std::unique_ptr<clang::FrontendAction> action = std::make_unique<clang::EmitObjAction>();
  if (is_preprocessing(flags)) action = std::make_unique<PreprocessAction>(object);
  if (!compiler.ExecuteAction(*action)) {
    outcome.code = kSystoleClangRefused;
    return outcome;
  }
  outcome.code = kSystoleClangDone;
  outcome.bytes.assign(object.data(), object.size());
  return outcome;
}

// LLVM keeps state in globals, which a crash leaves half made: after one, nothing is compiled here any more.
bool is_sound = true;

Outcome linked(const std::string& object) {
  Outcome outcome;
  const Descriptor input(::memfd_create("systole-object", MFD_CLOEXEC));
  int ends[2] = {-1, -1};
  if (input.number() < 0 || !write_all(input.number(), object) || ::pipe2(ends, O_CLOEXEC) != 0)
    return {kSystoleClangFailed, std::string("no memory file for lld: ") + std::strerror(errno)};
  const Descriptor result(ends[0]);
  Descriptor output(ends[1]);
  std::string library;
  std::thread reader([&] { library = read_all(result.number()); });
  const std::string from = input.path(), to = output.path(), math = libm();
  std::vector<const char*> command = {"ld.lld",   "-shared",   "--threads=1",     "--hash-style=gnu",
                                      "-z",       "norelro",   "--build-id=none", "-o",
                                      to.c_str(), from.c_str()};
  if (!math.empty()) command.insert(command.end(), {"--as-needed", math.c_str()});
  llvm::raw_string_ostream words(outcome.bytes);
  const lld::Result ended = lld::lldMain(command, words, words, {{lld::Gnu, &lld::elf::link}});
  output.close();
  reader.join();
  is_sound = ended.canRunAgain;
  if (ended.retCode != 0) return outcome;
  return {kSystoleClangDone, std::move(library)};
}

Outcome compiled(llvm::StringRef source, llvm::ArrayRef<const char*> flags) {
  static const bool ready = [] {
    return !llvm::InitializeNativeTarget() && !llvm::InitializeNativeTargetAsmPrinter() &&
           !llvm::InitializeNativeTargetAsmParser();
  }();
  if (!ready) return {kSystoleClangFailed, "LLVM cannot make code for this processor"};
  if (!is_sound) return {kSystoleClangFailed, "the compiler crashed before"};
  // A crash of the compiler ends its work, not the process; so does what LLVM itself ends the process for.
  Outcome outcome;
  std::string fault = "the compiler crashed";
  const llvm::ScopedFatalErrorHandler handler(
      [](void* text, const char* reason, bool) {
        *static_cast<std::string*>(text) += std::string(": ") + reason;
        llvm::sys::Process::Exit(1);
      },
      &fault);
  llvm::CrashRecoveryContext::Enable();
  llvm::CrashRecoveryContext guard;
  const bool survived = guard.RunSafelyOnThread(
      [&] {
        outcome = object_of(source, flags);
        if (outcome.code == kSystoleClangDone && !is_preprocessing(flags)) outcome = linked(outcome.bytes);
      },
      kStack);
  llvm::CrashRecoveryContext::Disable();
  if (survived) return outcome;
  is_sound = false;
  return {kSystoleClangFailed, fault};
}

}  // namespace

extern "C" {

SYSTOLE_API const char* systole_clang_build() { return SYSTOLE_CLANG_BUILD; }

SYSTOLE_API void systole_clang_free(char* bytes) { std::free(bytes); }

SYSTOLE_API SystoleClangResult systole_clang_compile(const char* source, std::size_t size,
                                                     const char* const* flags, std::size_t flag_count) {
  static std::mutex turn;
  const std::lock_guard lock(turn);
  const Outcome outcome = compiled({source, size}, {flags, flag_count});
  SystoleClangResult result{outcome.code, static_cast<char*>(std::malloc(outcome.bytes.size() + 1)),
                            outcome.bytes.size()};
  if (result.bytes == nullptr) return {kSystoleClangFailed, nullptr, 0};
  std::memcpy(result.bytes, outcome.bytes.data(), outcome.bytes.size());
  return result;
}
}
