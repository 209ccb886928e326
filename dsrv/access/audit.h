// The audit trail: who was refused, and who changed what by hand. One JSON object a line, appended
// to a file, or a line of the log when there is none.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr {

struct AuditEntry {
  bool refused = false;  // else something was changed, or tried to be
  std::string method;    // "dfsmr.v1.RunnerService/Cancel"
  std::string ns;
  std::string on;  // ids of instances, machines or an access token
  std::string detail;
  std::string credential;  // its id; empty: missing or invalid
  std::string name;        // the credential's
  std::string role;
  std::string peer;
  std::string certificate;  // the client's common name, with mutual TLS
  std::string result;       // "OK", or the reason
};

// Any thread. A line is handed to the kernel before the call that it is about is answered; how soon
// that reaches the disk is up to the file system.
class Audit {
 public:
  // Writes to `path`, or to the log when it is empty. Fails when the file cannot be opened.
  static Result<std::unique_ptr<Audit>> Open(std::string path, std::function<Timestamp()> clock);
  ~Audit();
  Audit(const Audit&) = delete;
  Audit& operator=(const Audit&) = delete;

  // Refusals beyond sixty at once and one a second are only counted: the next line of one says how
  // many were left out. Those of callers with a valid credential and of all others are counted
  // apart, so that strangers cannot hide what insiders try. A change always gets its line: in the
  // log when the file cannot be written.
  void Note(const AuditEntry& entry);

  // kUnavailable AUDIT_FAILED while the file cannot be written: nothing may be changed then. Tries
  // again, once a second.
  Result<Ok> Ready();

 private:
  Audit(std::string path, std::function<Timestamp()> clock);

  struct Allowance {
    Timestamp counted{};
    double left = 0;  // refusals that may be noted
    uint64_t left_out = 0;
  };
  static bool Admit(Timestamp now, Allowance* allowance, uint64_t* left_out);
  bool Reopen() REQUIRES(mutex_);
  bool Write(std::string line) REQUIRES(mutex_);

  const std::string path_;
  const std::function<Timestamp()> clock_;
  Mutex mutex_;
  int file_ GUARDED(mutex_) = -1;
  bool failed_ GUARDED(mutex_) = false;
  bool torn_ GUARDED(mutex_) = false;  // the last line in the file has no end
  Timestamp tried_ GUARDED(mutex_){};
  Allowance known_ GUARDED(mutex_);
  Allowance unknown_ GUARDED(mutex_);
};

}  // namespace dfsmr
