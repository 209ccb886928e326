// Which host of a database is used, when a former primary is back.
#include "storage/postgres/hosts.h"

#include <doctest/doctest.h>

#include "tests/storage/postgres/postgres_server.h"

namespace dfsmr {
namespace {

// A primary that was lost, and its successor.
struct FailedOver {
  FailedOver() {
    primary.Stop();
    successor = PostgresServer::Promoted(primary);
  }
  PostgresServer primary;
  std::unique_ptr<PostgresServer> successor;
};

struct Watched {
  Watched(const std::string& uri, const std::string& known = "")
      : hosts(*ParsePgAddress(uri), known,
              [this](bool, const std::string& what) { told.push_back(what); }) {}

  std::unique_ptr<PgConnection> MustConnect() {
    auto connection = hosts.Connect();
    REQUIRE_MESSAGE(connection, (connection ? "" : connection.error().message));
    return *std::move(connection);
  }

  std::vector<std::string> told;
  PgHosts hosts;
};

TEST_CASE("of two that take writes the one that was promoted last has the store") {
  FailedOver pair;
  pair.primary.Start();
  Watched watched(pair.primary.UriWith(*pair.successor));
  for (int round = 0; round < 2; ++round) {
    CHECK(watched.MustConnect()->host() == pair.successor->folder());
  }
  REQUIRE(watched.told.size() == 1);
  CHECK(watched.told[0].find(pair.primary.folder().string() + ": it is a former primary") == 0);
  CHECK(Watched(pair.successor->UriWith(pair.primary)).MustConnect()->host() ==
        pair.successor->folder());
}

TEST_CASE("once a connection is lost all hosts are asked, and those to a former primary are left") {
  FailedOver pair;
  pair.successor->Stop(SIGINT);
  pair.primary.Start();
  Watched watched(pair.primary.UriWith(*pair.successor));
  auto first = watched.MustConnect();
  const auto second = watched.MustConnect();
  CHECK(first->host() == pair.primary.folder());
  pair.successor->Start();
  CHECK(watched.MustConnect()->host() == pair.primary.folder());  // nobody has asked
  CHECK_FALSE(second->lost());
  first->Lose();
  first.reset();
  CHECK(watched.MustConnect()->host() == pair.successor->folder());
  CHECK(second->lost());
}

TEST_CASE("a former primary alone is refused by all who have seen its successor") {
  FailedOver pair;
  pair.primary.Start();
  Watched watched(pair.primary.UriWith(*pair.successor));
  CHECK(watched.MustConnect()->host() == pair.successor->folder());
  pair.successor->Stop();
  Watched next(pair.primary.Uri(), watched.hosts.known());
  for (PgHosts* hosts : {&watched.hosts, &next.hosts}) {
    const auto refused = hosts->Connect();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::kUnavailable);
    CHECK(refused.error().message.find("it is a former primary: its timeline is 1") !=
          std::string::npos);
  }
  CHECK(Watched(pair.primary.Uri()).MustConnect()->host() == pair.primary.folder());
}

}  // namespace
}  // namespace dfsmr
