#include "dcli/agent/host.h"

#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>

namespace dfsmr::cli {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
std::string SystemName() {
  std::ifstream file("/etc/os-release");
  constexpr std::string_view kKey = "PRETTY_NAME=";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    line.erase(0, kKey.size());
    std::erase(line, '"');
    return line;
  }
  return "Linux";
}

// As dpkg names it.
std::string Architecture(const std::string& machine) {
  static const std::map<std::string, std::string> kNames = {{"x86_64", "amd64"},
                                                            {"aarch64", "arm64"},
                                                            {"armv7l", "armhf"},
                                                            {"i686", "i386"},
                                                            {"ppc64le", "ppc64el"}};
  const auto known = kNames.find(machine);
  return known == kNames.end() ? machine : known->second;
}

}  // namespace

v1::Host ThisHost() {
  v1::Host host;
  utsname names{};
  uname(&names);
  host.set_hostname(names.nodename);
  host.set_os(SystemName());
  host.set_kernel(names.release);
  host.set_arch(Architecture(names.machine));
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const bool known = sched_getaffinity(0, sizeof cpus, &cpus) == 0;
  host.set_cpus(static_cast<uint32_t>(std::max(known ? CPU_COUNT(&cpus) : 1, 1)));
  struct sysinfo about {};
  if (sysinfo(&about) == 0) host.set_memory(uint64_t{about.totalram} * about.mem_unit);
  host.set_boot_id(FirstLine("/proc/sys/kernel/random/boot_id"));
  return host;
}

std::string NewSession() {
  std::random_device random;
  std::string session;
  for (int i = 0; i < 32; ++i) session += "0123456789abcdef"[random() & 15];
  return session;
}

}  // namespace dfsmr::cli
