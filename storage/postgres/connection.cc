#include "storage/postgres/connection.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kConnect{1500};  // for each host
const PgStatement kRollback{"dsrv_rollback", "rollback"};

// One line; libpq ends its messages with a newline.
std::string Trimmed(std::string_view message) {
  while (!message.empty() && message.back() == '\n') message.remove_suffix(1);
  return OneLine(message);
}

Error Unreachable(const std::string& why) { return {Code::kUnavailable, Reason::kNone, why}; }

// False: nothing came in time.
bool WaitFor(int socket, short events, milliseconds time) {
  pollfd wanted{socket, events, 0};
  const auto until = Clock::now() + time;
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    const int ready = poll(&wanted, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

using Settings = std::vector<std::pair<std::string, std::string>>;

bool Has(const Settings& settings, std::string_view key) {
  return std::ranges::any_of(settings, [key](const auto& one) { return one.first == key; });
}

Settings SettingsFor(const PgAddress& address, const PgAddress::Host& host) {
  Settings settings = address.settings;
  if (!host.host.empty()) settings.emplace_back("host", host.host);
  if (!host.numeric.empty()) settings.emplace_back("hostaddr", host.numeric);
  if (!host.port.empty()) settings.emplace_back("port", host.port);
  settings.emplace_back("client_encoding", "UTF8");
  for (const auto& [key, value] : {std::pair("fallback_application_name", "dsrv"),
                                   {"tcp_user_timeout", "10000"},
                                   {"keepalives_idle", "5"},
                                   {"keepalives_interval", "2"}}) {
    if (!Has(address.settings, key)) settings.emplace_back(key, value);
  }
  return settings;
}

PGconn* Start(const Settings& settings) {
  std::vector<const char*> keys;
  std::vector<const char*> values;
  for (const auto& [key, value] : settings) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  keys.push_back(nullptr);
  values.push_back(nullptr);
  return PQconnectStartParams(keys.data(), values.data(), 0);
}

// "": it is connected.
std::string AwaitConnected(PGconn* connection) {
  if (PQstatus(connection) == CONNECTION_BAD) return Trimmed(PQerrorMessage(connection));
  const auto until = Clock::now() + kConnect;
  PostgresPollingStatusType state = PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK) {
    if (state == PGRES_POLLING_FAILED) return Trimmed(PQerrorMessage(connection));
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    const short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (left <= milliseconds::zero() || !WaitFor(PQsocket(connection), events, left)) {
      return "no answer within " + std::to_string(kConnect.count()) + " ms";
    }
    state = PQconnectPoll(connection);
  }
  return {};
}

std::string Set(std::string_view name, std::string_view value) {
  return "set_config('" + std::string(name) + "', '" + std::string(value) + "', false)";
}

}  // namespace

PgFate PgFateOf(std::string_view state) {
  const auto is = [state](std::string_view start) { return state.starts_with(start); };
  if (state.empty() || is("08") || is("57P0") || state == "40003") return PgFate::kUnknown;
  if (state == "22012") return PgFate::kFenced;
  if (is("53100")) return PgFate::kFull;
  // 25006: it has become a standby. 57014: somebody cancelled a statement. 55P03, 25P0x: time
  // limits that somebody has set.
  if (is("40") || is("53") || state == "25006" || state == "57014" || state == "55P03" ||
      is("25P0")) {
    return PgFate::kNothing;
  }
  return PgFate::kRefused;
}

int64_t PgResult::Number(int row, int column) const {
  uint64_t number = 0;
  const std::string_view bytes = Bytes(row, column);
  const bool negative = !bytes.empty() && static_cast<signed char>(bytes.front()) < 0;
  if (negative) number = UINT64_MAX;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return static_cast<int64_t>(number);
}

Result<std::unique_ptr<PgConnection>> PgConnection::Open(const PgAddress& address, int number,
                                                         PgChoice choice) {
  const PgAddress::Host& host = address.hosts[static_cast<size_t>(number)];
  std::string name = host.host.empty() ? host.numeric : host.host;
  if (!host.port.empty()) name += ":" + host.port;
  Handle handle(Start(SettingsFor(address, host)), PQfinish);
  if (!handle) return Unreachable("there is no memory for a connection");
  if (const std::string why = AwaitConnected(handle.get()); !why.empty()) {
    return Unreachable(name.empty() ? why : name + ": " + why);
  }
  if (PQsetnonblocking(handle.get(), 1) != 0 || PQenterPipelineMode(handle.get()) != 1) {
    return Unreachable(name + ": " + Trimmed(PQerrorMessage(handle.get())));
  }
  std::unique_ptr<PgConnection> connection(
      new PgConnection(std::move(handle), name, number, std::move(choice)));
  if (auto settled = connection->Settle(); !settled) {
    return Unreachable(name + ": " + settled.error().message);
  }
  return connection;
}

PgConnection::PgConnection(Handle connection, std::string host, int number, PgChoice choice)
    : connection_(std::move(connection)),
      host_(std::move(host)),
      number_(number),
      choice_(std::move(choice)) {
  PQsetNoticeReceiver(connection_.get(), OnNotice, this);
}

PgConnection::~PgConnection() {
  int own = number_;
  if (lost()) choice_->compare_exchange_strong(own, kNoHost);
}

// Takes it only where it takes writes, and has it behave as all statements expect.
Result<Ok> PgConnection::Settle() {
  const PgStatement first{"", "select pg_is_in_recovery(), " + Set("synchronous_commit", "on") +
                                  ", " + Set("default_transaction_isolation", "read committed") +
                                  ", " + Set("default_transaction_read_only", "off") + ", " +
                                  Set("client_min_messages", "warning")};
  // What keeps every statement on its index, whatever the planner thinks of tables that it has not
  // seen full yet; and has a backend whose client is gone end. Others than PostgreSQL may refuse.
  const PgStatement second{"", "select " + Set("plan_cache_mode", "force_generic_plan") + ", " +
                                   Set("enable_seqscan", "off") + ", " +
                                   Set("enable_hashjoin", "off") + ", " +
                                   Set("enable_mergejoin", "off") + ", " +
                                   Set("enable_bitmapscan", "off") + ", " + Set("jit", "off")};
  const PgStatement third{"", "select " + Set("client_connection_check_interval", "2s")};
  // Who waits for a lock for so long asks again; nothing was done meanwhile.
  const PgStatement fourth{"", "select " + Set("lock_timeout", "10s")};
  const PgStatement fifth{"", "select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), "
                              "8))::bit(32)::bigint, system_identifier from pg_control_system()"};
  const PgCall settle{first};
  PgAnswer answer = Run({&settle, 1}, kConnect);
  if (answer.failure) return Unreachable(answer.failure->message);
  if (answer.results.front().Bool(0, 0)) return Unreachable("it is a standby");
  for (const PgStatement* statement : {&second, &third, &fourth, &fifth}) {
    const PgCall call{*statement};
    answer = Run({&call, 1}, kConnect);
    if (lost()) return Unreachable("the connection was lost");
  }
  ReadTimeline(answer);
  for (const PgStatement* statement : {&first, &second, &third, &fourth, &fifth}) {
    prepared_.erase(statement);
  }
  return Ok{};
}

void PgConnection::ReadTimeline(const PgAnswer& answer) {
  if (answer.failure || answer.results.empty()) return;
  const PgResult& row = answer.results.front();
  timeline_ = {static_cast<uint64_t>(row.Number(0, 1)), static_cast<uint32_t>(row.Number(0, 0))};
}

void PgConnection::Queue(const PgCall& call, Queued kind) {
  const PgStatement& statement = call.statement;
  if (!prepared_.contains(&statement) && preparing_.insert(&statement).second) {
    if (PQsendPrepare(connection_.get(), statement.name.c_str(), statement.text.c_str(), 0,
                      nullptr) != 1) {
      lost_ = true;
    }
    queue_.push_back({Queued::kPrepare, &statement});
  }
  const auto& values = call.params.values();
  const std::vector<int> binary(values.size(), 1);
  if (PQsendQueryPrepared(connection_.get(), statement.name.c_str(),
                          static_cast<int>(values.size()), values.data(),
                          call.params.sizes().data(), binary.data(), 1) != 1) {
    lost_ = true;
  }
  queue_.push_back({kind, &statement});
}

void PgConnection::Sync() {
  if (PQpipelineSync(connection_.get()) != 1) lost_ = true;
  queue_.push_back({Queued::kSync, nullptr});
}

void PgConnection::Post(const PgStatement& statement) {
  if (lost()) return;
  Queue({statement}, Queued::kPosted);
  Sync();
  if (PQflush(connection_.get()) < 0) lost_ = true;
}

void PgConnection::NoteFailure(PgAnswer* answer, const PGresult* result) {
  if (answer->failure) return;
  const char* state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : nullptr;
  const char* primary = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : nullptr;
  PgFailure failure;
  if (state) failure.state = state;
  failure.message = Trimmed(primary ? primary : PQerrorMessage(connection_.get()));
  if (!failure.state.empty()) failure.message += " (SQLSTATE " + failure.state + ")";
  failure.fate = PgFateOf(failure.state);
  answer->failure = std::move(failure);
}

void PgConnection::Take(PGresult* raw, PgAnswer* answer) {
  PgResult result(raw);
  const Entry& entry = queue_[next_];
  const auto status = PQresultStatus(raw);
  const bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
  if (entry.kind == Queued::kPrepare) {
    preparing_.erase(entry.statement);
    if (good) prepared_.insert(entry.statement);
  }
  if (!good && status != PGRES_PIPELINE_ABORTED && entry.kind != Queued::kPosted) {
    NoteFailure(answer, raw);
  }
  if (good && entry.kind == Queued::kCall && !answer->failure) {
    answer->results.push_back(std::move(result));
  }
}

// Takes what has come. False: the connection is lost.
bool PgConnection::Advance(PgAnswer* answer) {
  int nothing = 0;
  while (next_ < queue_.size() && PQisBusy(connection_.get()) == 0) {
    PGresult* const result = PQgetResult(connection_.get());
    if (!result) {
      if (answered_) ++next_;
      if (!answered_ && ++nothing > 2) return false;
      answered_ = false;
      continue;
    }
    nothing = 0;
    if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
      PQclear(result);
      ++next_;
      continue;
    }
    Take(result, answer);
    answered_ = true;
    if (PQstatus(connection_.get()) != CONNECTION_OK) return false;
  }
  return true;
}

bool PgConnection::Wait(milliseconds patience) {
  const int unsent = PQflush(connection_.get());
  if (unsent < 0) return false;
  const short events = static_cast<short>(POLLIN | (unsent > 0 ? POLLOUT : 0));
  return WaitFor(PQsocket(connection_.get()), events, patience) &&
         PQconsumeInput(connection_.get()) == 1;
}

PgAnswer PgConnection::Run(std::span<const PgCall> calls, milliseconds patience) {
  PgAnswer answer;
  doubtful_ = false;
  if (!lost()) {
    for (const PgCall& call : calls) Queue(call, Queued::kCall);
    Sync();
  }
  bool whole = !lost();
  while (whole && next_ < queue_.size()) {
    whole = Wait(patience) && Advance(&answer);
  }
  queue_.clear();
  next_ = 0;
  if (!whole || lost()) {
    lost_ = true;
    NoteFailure(&answer, nullptr);
    if (answer.failure->message.empty()) {
      answer.failure->message = "no answer within " + std::to_string(patience.count()) + " ms";
    }
    // Whatever the database said last: of what was sent after it nothing is known.
    if (answer.failure->fate != PgFate::kFenced) answer.failure->fate = PgFate::kUnknown;
    return answer;
  }
  if (std::exchange(doubtful_, false) && !answer.failure) {
    lost_ = true;
    answer.failure = PgFailure{PgFate::kUnknown, "01000", "the commit did not wait for the standby"};
  }
  if (answer.failure && !lost_ && PQtransactionStatus(connection_.get()) != PQTRANS_IDLE) {
    const PgCall rollback{kRollback};
    if (Run({&rollback, 1}, patience).failure) lost_ = true;
  }
  return answer;
}

PgAnswer PgConnection::RunOnce(const PgCall& call, milliseconds patience) {
  PgAnswer answer = Run({&call, 1}, patience);
  prepared_.erase(&call.statement);
  return answer;
}

// "canceling wait for synchronous replication": the transaction is committed here, but perhaps not
// on the standby. The message is in the language of the database, so any such warning counts.
void PgConnection::OnNotice(void* self, const PGresult* notice) {
  const char* state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
  if (state && std::string_view(state) == "01000") {
    static_cast<PgConnection*>(self)->doubtful_ = true;
  }
}

}  // namespace dfsmr
