// Credentials and the audit trail. Calls are made in tests/e2e/test_security.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "dfsmr/v1/admin.pb.h"
#include "dsrv/access/audit.h"
#include "dsrv/access/credentials.h"
#include "dsrv/access/tls.h"
#include "storage/rows/credential.h"
#include "tests/dsrv/engine/world.h"
#include "tests/storage/rocks/temporary_folder.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

rows::CredentialRow Row(const std::string& id, const std::string& secret) {
  return {.id = id, .hash = HashOf(secret), .ns = "shop", .role = v1::AccessToken::VIEWER};
}

std::vector<std::string> LinesOf(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a token is found by its secret and by nothing else, until it is removed") {
  CredentialBook book;
  auto one = std::make_shared<const Principal>(Row("one", "secret one"));
  auto two = std::make_shared<const Principal>(Row("two", "secret two"));
  book.Add(one);
  book.Add(two);
  CHECK(book.Find("secret one") == one);
  CHECK(book.Find("secret on") == nullptr);
  CHECK(book.Find(one->row.hash) == nullptr);
  CHECK(book.Find("") == nullptr);
  CHECK(book.FindId("two") == two);
  CHECK(one->Valid(FromMicros(0)));
  book.Remove(one);
  CHECK(!one->Valid(FromMicros(0)));
  CHECK(book.Find("secret one") == nullptr);
  CHECK(book.All() == std::vector<PrincipalPtr>{two});
}

TEST_CASE("a token is valid before it expires, and not then") {
  rows::CredentialRow row = Row("one", "secret");
  row.expire_time = FromMicros(1'000);
  const Principal principal(row);
  CHECK(principal.Valid(FromMicros(999)));
  CHECK(!principal.Valid(FromMicros(1'000)));
}

TEST_CASE("hashes are SHA-256, and secrets are as long as they say and never the same") {
  std::string hex;
  for (char c : HashOf("abc")) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<uint8_t>(c));
    hex += digits;
  }
  CHECK(hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  std::set<std::string> secrets;
  for (int i = 0; i < 100; ++i) secrets.insert(RandomHex(32));
  CHECK(secrets.size() == 100);
  CHECK(std::ranges::all_of(secrets, [](const std::string& one) { return one.size() == 64; }));
}

TEST_CASE("only this machine's own addresses are loopback") {
  for (const char* addr : {"localhost:3004", "127.0.0.1:3004", "127.8.9.10:0", "[::1]:3004",
                           "unix:/run/dfsmr.sock"}) {
    CAPTURE(addr);
    CHECK(IsLoopback(addr));
  }
  for (const char* addr : {":3004", "0.0.0.0:3004", "[::]:3004", "10.0.0.1:3004", "3004", "",
                           "localhost.example.org:3004", "127.0.0.1.example.org:3004",
                           "128.0.0.1:1", "[::ffff:1.2.3.4]:3004"}) {
    CAPTURE(addr);
    CHECK(!IsLoopback(addr));
  }
}

TEST_CASE("an address to listen at on every interface names no host") {
  for (const char* addr : {":3004", "0.0.0.0:3004", "[::]:3004", "*:3004"}) {
    CAPTURE(addr);
    CHECK(NamesNoHost(addr));
  }
  for (const char* addr : {"localhost:3004", "10.0.0.0:1", "[::1]:3004", "db.example.org:3004"}) {
    CAPTURE(addr);
    CHECK(!NamesNoHost(addr));
  }
}

TEST_CASE("the audit trail: one JSON object a line, whatever it is told") {
  const TemporaryFolder folder;
  const auto path = folder / "audit.log";
  Timestamp now = FromMicros(1'700'000'000'123'000);
  auto audit = Audit::Open(path.string(), [&now] { return now; });
  REQUIRE(audit);
  (*audit)->Note({.method = "S/Cancel", .ns = "shop", .on = "a\n\"b\"\xff", .credential = "t1",
                  .result = "OK"});
  const auto lines = LinesOf(path);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "{\"time\":\"2023-11-14T22:13:20.123Z\",\"event\":\"changed\",\"method\":"
                    "\"S/Cancel\",\"namespace\":\"shop\",\"on\":\"a\\n\\\"b\\\"\xEF\xBF\xBD\","
                    "\"token\":\"t1\",\"result\":\"OK\"}");
}

TEST_CASE("the audit trail: refusals are bounded and counted, changes are not") {
  const TemporaryFolder folder;
  const auto path = folder / "audit.log";
  Timestamp now = FromMicros(1'700'000'000'000'000);
  auto audit = Audit::Open(path.string(), [&now] { return now; });
  REQUIRE(audit);
  const AuditEntry refusal{.refused = true, .method = "S/M", .ns = std::string(1 << 20, 'x')};
  for (int i = 0; i < 1'000; ++i) (*audit)->Note(refusal);
  CHECK(LinesOf(path).size() == 60);
  CHECK(std::filesystem::file_size(path) < 60 * 400);
  for (int i = 0; i < 199; ++i) (*audit)->Note({.method = "S/Change"});
  (*audit)->Note({.refused = true, .method = "S/M", .credential = "an insider's"});
  CHECK(LinesOf(path).size() == 260);
  now += 2s;
  for (int i = 0; i < 10; ++i) (*audit)->Note(refusal);
  const auto lines = LinesOf(path);
  CHECK(lines.size() == 262);
  CHECK(lines[260].find("\"refusals_left_out\":940") != std::string::npos);
  CHECK(lines[261].find("left_out") == std::string::npos);
}

TEST_CASE("the audit trail: a file that was moved away is begun anew") {
  const TemporaryFolder folder;
  const auto path = folder / "audit.log";
  auto audit = Audit::Open(path.string(), [] { return FromMicros(0); });
  REQUIRE(audit);
  (*audit)->Note({.method = "S/First"});
  std::filesystem::rename(path, folder / "audit.log.1");
  (*audit)->Note({.method = "S/Second"});
  CHECK(LinesOf(folder / "audit.log.1").size() == 1);
  CHECK(LinesOf(path).size() == 1);
}

TEST_CASE("the audit trail: while it cannot be written nothing may be changed") {
  const TemporaryFolder folder;
  const auto path = folder / "audit.log";
  std::filesystem::create_symlink("/dev/full", path);
  Timestamp now = FromMicros(1'700'000'000'000'000);
  auto audit = Audit::Open(path.string(), [&now] { return now; });
  REQUIRE(audit);
  CHECK((*audit)->Ready());
  (*audit)->Note({.method = "S/First"});
  CHECK((*audit)->Ready().error().reason == Reason::kAuditFailed);
  std::filesystem::remove(path);
  CHECK(!(*audit)->Ready());  // not looked at again so soon
  now += 1s;
  CHECK((*audit)->Ready());
  (*audit)->Note({.method = "S/Second"});
  const auto lines = LinesOf(path);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].find("resumed") != std::string::npos);
  CHECK(lines[1].find("S/Second") != std::string::npos);
  CHECK(!Audit::Open("/no/such/folder/audit.log", [] { return FromMicros(0); }));
}

TEST_CASE("what a limited token may touch: its machines, its queues, and claims as they are") {
  World world;
  world.Define(R"(
id: m
nodes:
  a: {start: true, queue: gpu, transitions: {ok: b}}
  b: {transitions: {ok: done}}
  done: {final: true}
)");
  world.Start("m", "i");
  const Task task = world.ReadyOne();
  auto concerns = [&](const std::string& claim, std::vector<std::string> machines,
                      std::vector<std::string> queues, const std::string& id = "i") {
    return world.Do([&](Engine& engine) {
      return engine.Concerns("ns", id, claim, machines, queues);
    });
  };
  CHECK(concerns(task.claim, {"m"}, {}));
  CHECK(concerns(task.claim, {}, {"gpu"}));
  CHECK(concerns(task.claim, {"n", "m"}, {"default", "gpu"}));
  CHECK(!concerns(task.claim, {"n"}, {}));
  CHECK(!concerns(task.claim, {}, {"default"}));
  CHECK(!concerns(task.claim, {"m"}, {}, "j"));
  CHECK(!concerns("1-1-1-0", {"m"}, {}));
  CHECK(!concerns("nonsense", {"m"}, {}));
  CHECK(concerns("", {"m"}, {"gpu"}));
  CHECK(!concerns("", {"m"}, {"default"}));
  REQUIRE(world.Report(task, "ok"));
  CHECK(concerns(task.claim, {"m"}, {"gpu"}));  // over: it is told that it is stale
  CHECK(!concerns(task.claim, {"n"}, {"gpu"}));
  CHECK(!concerns("", {"m"}, {"gpu"}));

  REQUIRE(world.Report(world.ReadyOne(), "ok"));
  world.Start("m", "j");
  const Task other = world.ReadyOne();
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "j", CancelMode::kForce); }));
  CHECK(concerns(other.claim, {"m"}, {"gpu"}, "j"));  // over, too
}

}  // namespace dfsmr
