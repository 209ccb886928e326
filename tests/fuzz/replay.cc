// In place of libFuzzer where there is none: runs a target once on each file of the folders (or on
// the files) that it is given. No input may crash it, take more than a second of CPU, or bring the
// process above 512 MiB. Says which input did; exits with 1.
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr int kSlower = 10;  // what a sanitizer costs, in time and in memory
#else
constexpr int kSlower = 1;
#endif
constexpr time_t kSeconds = 1 * kSlower;
constexpr long kMegabytes = 512L * kSlower;

char input_name[4096] = "none yet";

void Say(const char* what) {
  for (const char* part : {"fuzz: ", what, ": ", static_cast<const char*>(input_name), "\n"}) {
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) return;
  }
}

void OnSignal(int number) {
  Say(number == SIGPROF ? "takes more than a second of CPU" : "crashes");
  _exit(1);
}

void ArmTimer() {
  const itimerval once{{0, 0}, {kSeconds, 0}};
  setitimer(ITIMER_PROF, &once, nullptr);
}

bool Run(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::snprintf(input_name, sizeof input_name, "%s", path.c_str());
  // A copy of just this size, as libFuzzer gives it, so that a sanitizer sees each byte too far.
  const std::vector<uint8_t> input(bytes.begin(), bytes.end());
  ArmTimer();
  LLVMFuzzerTestOneInput(input.data(), input.size());
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  if (used.ru_maxrss <= kMegabytes << 10) return true;
  Say("takes too much memory");
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int number : {SIGPROF, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(number, OnSignal);
  }
#ifndef __SANITIZE_ADDRESS__
  const rlimit limit{kMegabytes << 21, kMegabytes << 21};  // of addresses, not of what is touched
  setrlimit(RLIMIT_AS, &limit);
#endif
  if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::filesystem::path> inputs;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      inputs.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      inputs.push_back(entry.path());
    }
  }
  std::sort(inputs.begin(), inputs.end());
  if (inputs.empty()) Say("there is no input to replay");
  if (inputs.empty() || !std::all_of(inputs.begin(), inputs.end(), Run)) return 1;
  std::printf("%zu inputs\n", inputs.size());
}
