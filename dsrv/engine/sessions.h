// The sessions of workers: the processes that keep what they have begun when their stream breaks. A
// session that has said how long is waited for; what it has not taken up again by then is lost.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/types.h"

namespace dfsmr {

class Sessions : public Part {
 public:
  // After the end of a server sessions have at least this long to come back, through another or it.
  static constexpr Duration kAfterRestart = std::chrono::seconds(30);

  Sessions(OpenTurn& turn, Claims& claims) : turn_(turn), claims_(claims) {}

  // The session has a stream from now on. Returns the one that it had; 0: none.
  SessionId Open(const std::string& ns, const WorkerTerms& terms, SessionId stream);
  // The stream has ended. The desk tells `claims` of what it had in hand.
  void Close(SessionId stream, StreamEnd how);
  // The session does not come back: what it has is lost. What has begun and runs at most once stays
  // claimed.
  void End(const SessionName& name);
  // The session's stream; 0: it has none.
  SessionId StreamOf(const SessionName& name) const;
  // Fills in what a claim that a crash has lost is to say of the session, by the stream of the
  // call.
  void Complete(const std::string& ns, ExtendArgs* args) const;
  // At start, before the instance is loaded: workers have as long again to begin what they have.
  // False: nothing has changed.
  bool Renew(Instance* instance) const;
  // In real time; kNever: no session is waited for.
  Timestamp Due() const { return ends_.empty() ? kNever : ends_.begin()->first; }

  void Load(Resident& resident) override;
  void Absorb(const Change& change) override;
  void BeginPass() override;
  bool Work() override;

 private:
  struct Held {
    std::string instance;
    uint64_t visit;
    SessionId stream;  // that the claim is on
  };
  struct Session {
    WorkerTerms terms;
    SessionId stream = 0;      // 0: it has none
    Timestamp until = kNever;  // what is not on `stream` by then is lost
    std::map<ClaimId, Held> held;
  };

  void Note(const Instance& instance, uint64_t visit, const Claim& claim);
  void Forget(const std::string& ns, const Claim& claim);
  void WaitUntil(const SessionName& name, Session& session, Timestamp until);
  void DropIfIdle(const SessionName& name);

  OpenTurn& turn_;
  Claims& claims_;
  std::map<SessionName, Session> sessions_;
  std::map<SessionId, SessionName> streams_;
  std::set<std::pair<Timestamp, SessionName>> ends_;
  bool waits_ = false;  // a session without a stream is to be waited for from the next pass on
};

}  // namespace dfsmr
