// The SQL of a store, for one schema. Only what PostgreSQL has in common with those that speak its
// protocol.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "storage/postgres/connection.h"

namespace dfsmr {

// Of one partition. Its table holds our keys without their first two bytes.
struct PgTable {
  PgStatement get;           // partition, key: value, epoch, seq; no row: no such partition
  PgStatement scan;          // partition, begin, end, limit: key, value, epoch, seq
  PgStatement scan_reverse;  // the same, descending
  PgStatement more;          // begin, end, limit: key, value
  PgStatement more_reverse;
  PgStatement delete_range;  // begin, end
  PgStatement delete_keys;   // keys
  PgStatement put;           // keys, values
  PgStatement append;        // the same, of keys that are not there: half as dear
};

// Of the lines of operations: one table for all partitions, whose keys begin with their two bytes.
struct PgLogStatements {
  PgStatement probe;         // fails where the table is missing, or may not be read
  PgStatement settle;        // of a connection that writes
  PgStatement claim;         // key, who: a row, unless a later one has claimed it
  PgStatement fence;         // key, who. Division by zero: another one has claimed it
  PgStatement get;           // keys: key, value
  PgStatement scan;          // begin, end, limit: key, value
  PgStatement scan_reverse;  // the same, descending
  PgStatement scan_ranges;   // begins, ends: key, value, in no order
  PgStatement delete_ranges;
  PgStatement delete_keys;  // keys
  PgStatement put;          // keys, values
};

struct PgStatements {
  // Of the schema `name`, as yet without tables.
  explicit PgStatements(const std::string& name);
  void AddTables(const std::string& name, uint16_t partitions);

  PgStatement begin;
  PgStatement begin_moment;  // repeatable read, read only
  PgStatement commit;
  PgStatement fence;    // partition, epoch, seq. Division by zero: it has others
  PgStatement touch;    // partition: epoch, seq; a commit after which all before are replicated
  PgStatement acquire;  // partition, owner, an epoch before it: epoch, seq, feed
  PgStatement heads;    // id, epoch, seq of all partitions
  std::deque<PgTable> tables;
  PgLogStatements logs;

  // Of the roster.
  PgStatement cluster;
  PgStatement servers;
  PgStatement parts;
  PgStatement renew;  // id, reached, leaving: a row if it is alive
  PgStatement clock;
  PgStatement bury_address;  // address, id, ids of those that are known there
  PgStatement forget;        // those that have been dead for a day
  PgStatement join;          // id, address, version, level: if nobody lives at the address
  PgStatement bury;          // id, lease in seconds
  PgStatement dead;          // id: a row if it is dead or unknown
  PgStatement take;          // partition, epoch, owner before, self: epoch, seq, feed
  PgStatement give;          // partition, epoch, self, to
  PgStatement leave;         // id
  PgStatement raise;         // level
  PgStatement set_life;      // life
  PgStatement set_moved;     // where to
};

// "dfsmr" for --store-schema: letters, digits and underscores, and not the database's own. A word
// of SQL's may be one, too.
bool IsPgSchema(const std::string& name);

// What makes the tables, in order. `schema_exists`: the schema is there already. `plain`: with what
// YugabyteDB needs, and nothing that only PostgreSQL has.
std::vector<std::string> PgTables(const std::string& name, uint16_t partitions, bool schema_exists,
                                  bool plain);
// The row of the cluster: format, level, partitions, life, secret.
std::string PgFirstRow(const std::string& name);
// What makes the table of the lines of operations, which is among them. A store of before may lack
// it.
std::string PgLogTableText(const std::string& name, bool plain);
// A faster compression of values. Not every database has it.
std::string PgCompression(const std::string& name, uint16_t partition);
std::string PgLogCompression(const std::string& name);

}  // namespace dfsmr
