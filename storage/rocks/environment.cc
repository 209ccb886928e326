#include "storage/rocks/environment.h"

#include <fcntl.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <system_error>

namespace dfsmr {
namespace {

// "2026/11/30-08:46:29.450123 4711 ", as RocksDB's own begin: the time here, and the thread.
std::string BeginningOfLine() {
  timeval now = {};
  ::gettimeofday(&now, nullptr);
  std::tm local = {};
  ::localtime_r(&now.tv_sec, &local);
  char text[64];
  size_t length = std::strftime(text, sizeof(text), "%Y/%m/%d-%H:%M:%S", &local);
  length += static_cast<size_t>(std::snprintf(text + length, sizeof(text) - length, ".%06ld %ld ",
                                              static_cast<long>(now.tv_usec),
                                              ::syscall(SYS_gettid)));
  return std::string(text, length);
}

// Writes each line at once. Any thread: the system keeps lines apart.
class InfoLog final : public rocksdb::Logger {
 public:
  // Closes `file` in the end.
  explicit InfoLog(int file) : file_(file) {}
  ~InfoLog() override { ::close(file_); }

  using rocksdb::Logger::Logv;
  void Logv(const char* format, std::va_list values) override {
    std::string line = BeginningOfLine();
    std::va_list measured;
    va_copy(measured, values);
    const int length = std::vsnprintf(nullptr, 0, format, measured);
    va_end(measured);
    if (length < 0) return;
    const size_t begin = line.size();
    line.resize(begin + static_cast<size_t>(length) + 1);  // one for the zero at the end
    std::vsnprintf(line.data() + begin, line.size() - begin, format, values);
    line.back() = '\n';
    if (line[line.size() - 2] == '\n') line.pop_back();
    const ssize_t written = ::write(file_, line.data(), line.size());
    if (written > 0) size_ += static_cast<size_t>(written);
  }
  size_t GetLogFileSize() const override { return size_; }

 private:
  const int file_;
  std::atomic<size_t> size_ = 0;
};

class StoreFiles final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "dfsmr.StoreFiles"; }

  rocksdb::IOStatus NewLogger(const std::string& path, const rocksdb::IOOptions&,
                              std::shared_ptr<rocksdb::Logger>* log,
                              rocksdb::IODebugContext*) override {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) {
      return rocksdb::IOStatus::IOError("cannot open " + path,
                                        std::generic_category().message(errno));
    }
    *log = std::make_shared<InfoLog>(file);
    return rocksdb::IOStatus::OK();
  }
};

}  // namespace

rocksdb::Env* StoreEnvironment() {
  static rocksdb::Env* const environment =
      rocksdb::NewCompositeEnv(std::make_shared<StoreFiles>(rocksdb::FileSystem::Default()))
          .release();
  return environment;
}

}  // namespace dfsmr
