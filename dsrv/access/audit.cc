#include "dsrv/access/audit.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr double kRefusalsAtOnce = 60;
constexpr double kRefusalsPerSecond = 1;
constexpr size_t kRefusedText = 128;  // of a field: who is refused may send anything

std::string TimeText(Timestamp time) {
  const std::time_t seconds = static_cast<std::time_t>(Micros(time) / 1'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(Micros(time) / 1'000 % 1'000));
  return text;
}

// What is empty is left out.
template <typename Field>
void ForEachField(const AuditEntry& entry, Field field) {
  const std::pair<const char*, const std::string*> fields[] = {{"method", &entry.method},
                                                               {"namespace", &entry.ns},
                                                               {"on", &entry.on},
                                                               {"detail", &entry.detail},
                                                               {"token", &entry.credential},
                                                               {"parent", &entry.parent},
                                                               {"name", &entry.name},
                                                               {"role", &entry.role},
                                                               {"peer", &entry.peer},
                                                               {"certificate", &entry.certificate},
                                                               {"door", &entry.door},
                                                               {"request_id", &entry.request_id},
                                                               {"result", &entry.result}};
  for (const auto& [name, value] : fields) {
    if (value->empty()) continue;
    field(name, entry.refused ? std::string(Head(*value, kRefusedText)) : *value);
  }
}

std::string_view EventOf(const AuditEntry& entry) {
  if (entry.refused || (entry.read && entry.result != "OK")) return "refused";
  return entry.read ? "read" : "changed";
}

std::string JsonLine(const AuditEntry& entry, Timestamp now, uint64_t left_out) {
  nlohmann::ordered_json line;
  line["time"] = TimeText(now);
  line["event"] = EventOf(entry);
  ForEachField(entry, [&line](const char* name, const std::string& value) { line[name] = value; });
  if (left_out > 0) line["refusals_left_out"] = left_out;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

// For the log, whose JSON format takes the message as it is.
std::string LogLine(const AuditEntry& entry, uint64_t left_out) {
  std::string line = "audit: " + std::string(EventOf(entry));
  ForEachField(entry, [&line](const char* name, const std::string& value) {
    std::string text = OneLine(value);
    for (char& c : text) {
      if (c == '"' || c == '\\') c = '\'';
    }
    line += std::string(" ") + name + "=" + text;
  });
  if (left_out > 0) line += " refusals_left_out=" + std::to_string(left_out);
  return line;
}

}  // namespace

Audit::Audit(std::string path, std::function<Timestamp()> clock)
    : path_(std::move(path)), clock_(std::move(clock)) {}

Audit::~Audit() {
  if (file_ >= 0) close(file_);
}

Result<std::unique_ptr<Audit>> Audit::Open(std::string path, std::function<Timestamp()> clock) {
  std::unique_ptr<Audit> audit(new Audit(std::move(path), std::move(clock)));
  const Lock lock(audit->mutex_);
  if (!audit->path_.empty() && !audit->Reopen()) {
    return Error{
        Code::kUnavailable, Reason::kNone,
        "the audit log " + Quoted(audit->path_) + " cannot be written: " + std::strerror(errno)};
  }
  return audit;
}

// The file that has the name now: who rotates logs moves the old one away.
bool Audit::Reopen() {
  struct stat there {};
  struct stat ours {};
  if (file_ >= 0 && stat(path_.c_str(), &there) == 0 && fstat(file_, &ours) == 0 &&
      there.st_ino == ours.st_ino && there.st_dev == ours.st_dev) {
    return true;
  }
  if (file_ >= 0) close(file_);
  torn_ = false;
  file_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  return file_ >= 0;
}

bool Audit::Write(std::string line) {
  bool written = Reopen();
  if (written) {
    if (torn_) line.insert(0, 1, '\n');
    size_t done = 0;
    while (written && done < line.size()) {
      const ssize_t n = write(file_, line.data() + done, line.size() - done);
      if (n >= 0) done += static_cast<size_t>(n);
      written = n > 0 || (n < 0 && errno == EINTR);
    }
    torn_ = done < line.size() && (torn_ || done > 0);
  }
  if (written == failed_) {
    failed_ = !written;
    if (written) {
      spdlog::warn("the audit log {} is written again", path_);
    } else {
      spdlog::error("the audit log {} cannot be written: {}; operators may change nothing until it "
                    "can",
                    path_, std::strerror(errno));
    }
  }
  return written;
}

bool Audit::Admit(Timestamp now, Allowance* allowance, uint64_t* left_out) {
  const double earned = Seconds(now - std::exchange(allowance->counted, now)) * kRefusalsPerSecond;
  allowance->left = std::min(kRefusalsAtOnce, allowance->left + earned);
  if (allowance->left < 1) {
    ++allowance->left_out;
    return false;
  }
  allowance->left -= 1;
  *left_out = std::exchange(allowance->left_out, 0);
  return true;
}

void Audit::Note(const AuditEntry& entry) {
  const Timestamp now = clock_();
  const Lock lock(mutex_);
  uint64_t left_out = 0;
  Allowance* allowance = entry.credential.empty() ? &unknown_ : &known_;
  if (entry.refused && !Admit(now, allowance, &left_out)) return;
  if (path_.empty()) {
    spdlog::info(LogLine(entry, left_out));
  } else if (!Write(JsonLine(entry, now, left_out))) {
    spdlog::error(LogLine(entry, left_out));
  }
}

Result<Ok> Audit::Ready() {
  const Lock lock(mutex_);
  const Timestamp now = clock_();
  if (failed_ && now - tried_ >= std::chrono::seconds(1)) {
    tried_ = now;
    Write("{\"time\":\"" + TimeText(now) + "\",\"event\":\"resumed\"}\n");
  }
  if (!failed_) return Ok{};
  return Error{Code::kUnavailable, Reason::kAuditFailed,
               "the audit log cannot be written, and without it nothing may be changed by hand; "
               "the server's log says why"};
}

}  // namespace dfsmr
