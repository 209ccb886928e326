// A database that holds a store: where it is, that it can be trusted with one, and its tables.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "storage/postgres/address.h"
#include "storage/postgres/connection.h"
#include "storage/postgres/hosts.h"
#include "storage/postgres/statements.h"
#include "storage/roster.h"

namespace dfsmr {

inline constexpr uint32_t kPgFormat = 1;  // of the tables; an older server refuses a newer one
inline constexpr uint32_t kPgLevel = 1;   // of the rows

class PgDatabase {
 public:
  struct Options {
    std::string uri;  // libpq's
    std::string schema = "dfsmr";
    uint16_t partitions = kAsMade;
    bool allow_loss = false;
    bool create = true;      // makes the tables where there are none
    bool moved_too = false;  // also opens a store that has moved elsewhere
    std::string known = {};  // PgHosts::known of a process before this one
    // What an operator should know: the database went away, or is back. Any thread.
    std::function<void(bool bad, const std::string& what)> tell = [](bool, const std::string&) {};
  };

  // Connects, and makes the tables when there are none: of several at once one does. kUnavailable:
  // it cannot be reached. kFailedPrecondition: it is not fit for a store, or what is there is not
  // for this version; the message names the setting and the remedy. kInvalidArgument: the URI.
  static Result<std::shared_ptr<PgDatabase>> Open(Options options);

  // Another connection. Any thread.
  Result<std::unique_ptr<PgConnection>> Connect() const;

  const Options& options() const { return options_; }
  std::string known() const { return hosts_.known(); }  // for the next process. Any thread
  const PgStatements& statements() const { return statements_; }
  const ClusterRow& cluster() const { return cluster_; }  // as of Open
  const StoreFacts& facts() const { return facts_; }
  // Whether the lines of operations have a table: a store of before has none where this server's
  // role may not make it. As of Open.
  bool has_logs() const { return has_logs_; }
  const std::string& shown() const { return shown_; }  // for people, without a password

 private:
  PgDatabase(Options options, const PgAddress& address);
  Result<Ok> Inspect(PgConnection& connection);
  Result<Ok> InspectDurability(PgConnection& connection);
  Result<Ok> InspectPooler(PgConnection& connection) const;
  Result<bool> ReadCluster(PgConnection& connection);
  Result<Ok> MakeTables(PgConnection& connection);
  Result<Ok> CheckCluster() const;
  Result<Ok> FindLogs(PgConnection& connection);
  Error Unfit(const std::string& why) const;

  const Options options_;
  const std::string shown_;
  mutable PgHosts hosts_;
  PgStatements statements_;
  ClusterRow cluster_;
  StoreFacts facts_;
  bool has_logs_ = false;
  bool plain_ = false;  // not PostgreSQL itself
};

// A row of the table `cluster`.
ClusterRow ToCluster(const PgResult& result);

}  // namespace dfsmr
