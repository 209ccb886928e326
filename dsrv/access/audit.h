// The audit trail: which callers were refused, and which changed what by hand. Each entry is a JSON
// object on a line of its own, appended to a file, or to the log when there is no file.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr {

struct AuditEntry {
  bool refused = false;  // false: the caller changed something, or tried to
  bool read = false;     // it asked for secrets
  std::string method;    // "dfsmr.v1.RunnerService/Cancel"
  std::string ns;
  std::string on;  // ids of instances, machines or an access token
  std::string detail;
  std::string credential;  // its id; empty: missing or invalid
  std::string parent;      // of a session: the id of the credential that made it
  std::string name;        // the credential's
  std::string role;
  std::string peer;
  std::string certificate;  // the client's common name, with mutual TLS
  std::string door;         // "http"; empty: gRPC's port
  std::string request_id;   // as the caller or a proxy gave it, or as the door made it
  std::string result;       // "OK", or the reason
};

// Any thread. A line is handed to the kernel before its call is answered; how soon it reaches the
// disk is up to the file system.
class Audit {
 public:
  // Writes to `path`, or to the log when it is empty. Fails when the file cannot be opened.
  static Result<std::unique_ptr<Audit>> Open(std::string path, std::function<Timestamp()> clock);
  ~Audit();
  Audit(const Audit&) = delete;
  Audit& operator=(const Audit&) = delete;

  // Refusals beyond sixty at once and one a second are only counted, and the next line of a refusal
  // says how many were left out. Callers with a valid credential and all others are counted
  // separately, so that strangers cannot hide what insiders try. A change always gets its line; it
  // goes to the log when the file cannot be written.
  void Note(const AuditEntry& entry);

  // kUnavailable AUDIT_FAILED as long as the file cannot be written: then nothing may be changed.
  // Tries to write again once a second.
  Result<Ok> Ready();
  // As it was at the last try.
  bool failed() const {
    const Lock lock(mutex_);
    return failed_;
  }

 private:
  Audit(std::string path, std::function<Timestamp()> clock);

  struct Allowance {
    Timestamp counted{};
    double left = 0;  // how many refusals may still be noted
    uint64_t left_out = 0;
  };
  static bool Admit(Timestamp now, Allowance* allowance, uint64_t* left_out);
  bool Reopen() REQUIRES(mutex_);
  bool Write(std::string line) REQUIRES(mutex_);

  const std::string path_;
  const std::function<Timestamp()> clock_;
  mutable Mutex mutex_;
  int file_ GUARDED(mutex_) = -1;
  bool failed_ GUARDED(mutex_) = false;
  bool torn_ GUARDED(mutex_) = false;  // the last line in the file is incomplete
  Timestamp tried_ GUARDED(mutex_){};
  Allowance known_ GUARDED(mutex_);
  Allowance unknown_ GUARDED(mutex_);
};

}  // namespace dfsmr
