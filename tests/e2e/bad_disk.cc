// A disk that fails when it is told to: preloaded into a process, it stands between the process and
// the C library, and fails calls about the files below one folder.
//
//   BAD_DISK_FOLDER   the files below it are on the bad disk
//   BAD_DISK_ORDERS   a file that says what fails; no such file: nothing does
//
// An order is a line: CALL PART ERRNO SKIP. CALL is write, sync or read; PART is in the file's
// name ("*": any file); SKIP is how many such calls succeed first. From then on each fails: a disk
// that has failed once is not well again by itself. With ERRNO 0 it never returns. Calls that failed
// or hang are counted in ORDERS.failed, by one byte each.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

struct Order {
  char call[16] = "";
  char part[64] = "";
  int number = 0;
  long skip = 0;
};

// By system calls of its own: what it looks at must not fail for its own reasons.
bool ReadOrder(Order* order) {
  const char* path = std::getenv("BAD_DISK_ORDERS");
  if (!path) return false;
  static const auto real_open = Real<int(const char*, int, ...)>("open");
  static const auto real_read = Real<ssize_t(int, void*, size_t)>("read");
  const int file = real_open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[256] = "";
  const ssize_t size = real_read(file, text, sizeof text - 1);
  close(file);
  return size > 0 && std::sscanf(text, "%15s %63s %d %ld", order->call, order->part, &order->number,
                                 &order->skip) == 4;
}

bool IsBelow(int file, const char* part) {
  const char* folder = std::getenv("BAD_DISK_FOLDER");
  char link[64];
  char name[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, name, sizeof name - 1);
  if (!folder || size <= 0) return false;
  name[size] = '\0';
  const size_t length = std::strlen(folder);
  if (std::strncmp(name, folder, length) != 0 || name[length] != '/') return false;
  return std::strcmp(part, "*") == 0 || std::strstr(name + length, part);
}

void Count() {
  static const auto real_open = Real<int(const char*, int, ...)>("open");
  static const auto real_write = Real<ssize_t(int, const void*, size_t)>("write");
  const std::string path = std::string(std::getenv("BAD_DISK_ORDERS")) + ".failed";
  const int file = real_open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (real_write(file, "x", 1) < 0) std::perror("bad_disk");
  close(file);
}

// Whether this call is to fail; then errno is set.
bool Fails(const char* call, int file) {
  const int before = errno;
  static std::atomic<long> skipped{0};
  Order order;
  const bool meant = ReadOrder(&order) && std::strcmp(order.call, call) == 0 &&
                     IsBelow(file, order.part) && ++skipped > order.skip;
  if (meant) Count();
  while (meant && order.number == 0) pause();
  errno = meant ? order.number : before;
  return meant;
}

}  // namespace

extern "C" {

ssize_t write(int file, const void* bytes, size_t size) {
  static const auto real = Real<ssize_t(int, const void*, size_t)>("write");
  return Fails("write", file) ? -1 : real(file, bytes, size);
}
ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  static const auto real = Real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return Fails("write", file) ? -1 : real(file, bytes, size, offset);
}
ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t offset) {
  static const auto real = Real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return Fails("write", file) ? -1 : real(file, bytes, size, offset);
}
int fsync(int file) {
  static const auto real = Real<int(int)>("fsync");
  return Fails("sync", file) ? -1 : real(file);
}
int fdatasync(int file) {
  static const auto real = Real<int(int)>("fdatasync");
  return Fails("sync", file) ? -1 : real(file);
}
ssize_t pread(int file, void* bytes, size_t size, off_t offset) {
  static const auto real = Real<ssize_t(int, void*, size_t, off_t)>("pread");
  return Fails("read", file) ? -1 : real(file, bytes, size, offset);
}
ssize_t pread64(int file, void* bytes, size_t size, off64_t offset) {
  static const auto real = Real<ssize_t(int, void*, size_t, off64_t)>("pread64");
  return Fails("read", file) ? -1 : real(file, bytes, size, offset);
}
size_t fread_unlocked(void* bytes, size_t size, size_t count, FILE* file) {
  static const auto real = Real<size_t(void*, size_t, size_t, FILE*)>("fread_unlocked");
  if (!Fails("read", fileno(file))) return real(bytes, size, count, file);
  file->_flags |= 0x20;  // as ferror() tells it: _IO_ERR_SEEN
  return 0;
}

}  // extern "C"
