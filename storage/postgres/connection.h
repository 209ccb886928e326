// One connection to PostgreSQL: prepared statements, run several at a time in one round trip, with
// a time limit of our own, since neither libpq nor the kernel notices a database that has frozen.
#pragma once

#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "storage/postgres/address.h"
#include "storage/postgres/params.h"

namespace dfsmr {

// Prepared on a connection when it is first run there. It outlives all connections that run it.
struct PgStatement {
  std::string name;
  std::string text;
};

struct PgCall {
  const PgStatement& statement;
  PgParams params = {};
};

// What became of a transaction with a statement that failed.
enum class PgFate : uint8_t {
  kFenced,   // nothing was written: the fence has divided by zero
  kNothing,  // nothing was written, for now: the same may be sent again
  kFull,     // nothing was written, since the database has no room
  kUnknown,  // nobody knows
  kRefused,  // nothing was written, and never will be: a right, a table or a statement is wrong
};

struct PgFailure {
  PgFate fate = PgFate::kUnknown;
  std::string state;    // its SQLSTATE; empty: the database said nothing
  std::string message;  // one line, without a password
};

// By a failure's SQLSTATE; empty: there is none.
PgFate PgFateOf(std::string_view state);

class PgResult {
 public:
  explicit PgResult(PGresult* result) : result_(result, PQclear) {}

  int rows() const { return PQntuples(result_.get()); }
  bool IsNull(int row, int column) const { return PQgetisnull(result_.get(), row, column) != 0; }
  // Valid as long as the result.
  std::string_view Bytes(int row, int column) const {
    return {PQgetvalue(result_.get(), row, column),
            static_cast<size_t>(PQgetlength(result_.get(), row, column))};
  }
  std::string Text(int row, int column) const { return std::string(Bytes(row, column)); }
  // Of an int or a bigint.
  int64_t Number(int row, int column) const;
  bool Bool(int row, int column) const { return Bytes(row, column) == std::string_view("\1", 1); }

 private:
  std::unique_ptr<PGresult, void (*)(PGresult*)> result_;
};

struct PgAnswer {
  std::vector<PgResult> results;  // one for each call; of a failure those before it
  std::optional<PgFailure> failure;
};

// How often standbys were promoted until a primary came to be what it is. Of a database that is not
// PostgreSQL itself it is 0.
struct PgTimeline {
  uint64_t system = 0;  // which database this is; its standbys are the same
  uint32_t number = 0;
  // Whether `other` comes after it. Of another system nobody can say.
  bool Before(const PgTimeline& other) const {
    return system == 0 ? other.system != 0 : system == other.system && number < other.number;
  }
};

// The host of a database that is used now; all of its connections share it.
using PgChoice = std::shared_ptr<std::atomic<int>>;
inline constexpr int kNoHost = -1;  // nobody knows: it was lost

// One thread at a time.
class PgConnection {
 public:
  // Connects to one of the hosts, within some 3 s. kUnavailable: it does not answer, or takes no
  // writes. Once the connection is lost `choice` says so, if it was its host; once another host is
  // chosen the connection is lost.
  static Result<std::unique_ptr<PgConnection>> Open(
      const PgAddress& address, int number,
      PgChoice choice = std::make_shared<std::atomic<int>>(kNoHost));
  ~PgConnection();
  PgConnection(const PgConnection&) = delete;
  PgConnection& operator=(const PgConnection&) = delete;

  // Runs the calls in one round trip; after the first failure the others are not run. Nothing moved
  // for `patience`: the connection is lost. After a failure the transaction is rolled back.
  PgAnswer Run(std::span<const PgCall> calls, std::chrono::milliseconds patience);
  // The same for one statement that is not kept: its name is empty.
  PgAnswer RunOnce(const PgCall& call, std::chrono::milliseconds patience);
  // Has the statement run, and does not wait for it: the next Run does.
  void Post(const PgStatement& statement);

  // It is of no use any more.
  bool lost() const {
    const int host = *choice_;
    return lost_ || PQstatus(connection_.get()) != CONNECTION_OK ||
           (host != kNoHost && host != number_);
  }
  void Lose() { lost_ = true; }
  int version() const { return PQserverVersion(connection_.get()); }
  const PgTimeline& timeline() const { return timeline_; }  // as of Open
  const std::string& host() const { return host_; }
  int number() const { return number_; }  // of the host, in the address

 private:
  enum class Queued : uint8_t { kPrepare, kCall, kPosted, kSync };
  struct Entry {
    Queued kind;
    const PgStatement* statement;
  };
  using Handle = std::unique_ptr<PGconn, void (*)(PGconn*)>;

  PgConnection(Handle connection, std::string host, int number, PgChoice choice);
  Result<Ok> Settle();
  void ReadTimeline(const PgAnswer& answer);
  void Queue(const PgCall& call, Queued kind);
  void Sync();
  void Take(PGresult* result, PgAnswer* answer);
  bool Advance(PgAnswer* answer);
  bool Wait(std::chrono::milliseconds patience);
  void NoteFailure(PgAnswer* answer, const PGresult* result);
  static void OnNotice(void* self, const PGresult* notice);

  const Handle connection_;
  const std::string host_;
  const int number_;
  const PgChoice choice_;
  PgTimeline timeline_;
  bool lost_ = false;
  bool doubtful_ = false;     // a commit did not wait for the standby
  std::vector<Entry> queue_;  // what is sent and not answered, from next_ on
  size_t next_ = 0;
  bool answered_ = false;  // the entry at next_; its end has not come yet
  std::unordered_set<const PgStatement*> prepared_;
  std::unordered_set<const PgStatement*> preparing_;
};

}  // namespace dfsmr
