#include "dsrv/cluster/peers.h"

#include <utility>

#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/part_batch.h"
#include "dsrv/cluster/proof.h"

namespace dfsmr {
namespace {

constexpr std::chrono::seconds kPing{1};
constexpr const char* kPingMethod = "/dfsmr.peer.Peer/Ping";
constexpr const char* kLookKey = "dfsmr-look";
constexpr std::chrono::seconds kAdoption{5};
constexpr const char* kAdoptMethod = "/dfsmr.peer.Peer/Adopt";
constexpr const char* kSpaceKey = "dfsmr-namespace";
constexpr std::chrono::seconds kDelivery{5};
constexpr const char* kDeliverMethod = "/dfsmr.peer.Peer/Deliver";
constexpr const char* kAnswerMethod = "/dfsmr.peer.Peer/Answer";
constexpr const char* kPartsMethod = "/dfsmr.peer.Peer/Parts";

// A call of another server, with one request and one reply. What is to be done with the request is
// done once it is read.
class PeerCall final : public grpc::ServerGenericBidiReactor {
 public:
  using Serve = std::function<void(PeerCall& call, const std::string& request)>;
  explicit PeerCall(Serve serve) : serve_(std::move(serve)) { StartRead(&request_); }

  // Once.
  void Reply(const std::string& reply) {
    reply_ = ToBuffer(reply);
    StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void Fail(grpc::StatusCode code, const std::string& why) { Finish(grpc::Status(code, why)); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Fail(grpc::StatusCode::CANCELLED, "there is no request");
    // It may be answered, and gone, before this returns.
    const Serve serve = std::move(serve_);
    serve(*this, ToBytes(request_));
  }
  void OnDone() override { delete this; }

  Serve serve_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
};

// What one server asks another one.
struct PeerAsk {
  const char* method;
  std::chrono::milliseconds patience{};
  std::chrono::system_clock::time_point until = {};  // in place of `patience`
  std::string request = {};
  const char* key = "";  // of metadata, where there is a value
  std::string value = {};
};

// `done` is called once.
using PeerDone = std::function<void(const grpc::Status& status, const std::string& reply)>;
void AskPeer(const Front& front, const std::shared_ptr<Peer>& peer, const PeerAsk& ask,
             PeerDone done) {
  struct Asked {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer reply;
  };
  auto asked = std::make_shared<Asked>();
  asked->request = ToBuffer(ask.request);
  const bool patient = ask.patience > ask.patience.zero();
  asked->context.set_deadline(patient ? std::chrono::system_clock::now() + ask.patience
                                      : ask.until);
  asked->context.AddMetadata(
      std::string(kPassedOn),
      Prove(front.outside().secret,
            {.sender = front.outside().self, .receiver = peer->id, .method = ask.method}));
  if (!ask.value.empty()) asked->context.AddMetadata(ask.key, ask.value);
  peer->stub.UnaryCall(&asked->context, ask.method, grpc::StubOptions(), &asked->request,
                       &asked->reply,
                       [asked, peer, done = std::move(done)](const grpc::Status& status) {
                         done(status, status.ok() ? ToBytes(asked->reply) : "");
                       });
}

void ServeDelivery(const Front& front, PeerCall& call, const std::string& request) {
  front.outside().deliver(request, [&call](const std::optional<std::string>& reply) {
    reply ? call.Reply(*reply)
          : call.Fail(grpc::StatusCode::UNAVAILABLE, "nobody knows whether it was applied");
  });
}

void ServeQuestion(const Front& front, PeerCall& call, const std::string& request) {
  front.outside().answer(request, [&call](const std::optional<std::string>& reply) {
    reply ? call.Reply(*reply)
          : call.Fail(grpc::StatusCode::UNAVAILABLE, "the partition is not served here");
  });
}

void ServeAdoption(const Front& front, PeerCall& call, const std::string& ns) {
  front.outside().adopt(ns, [&call](bool done) {
    done ? call.Reply("") : call.Fail(grpc::StatusCode::UNAVAILABLE, "it was not adopted");
  });
}

}  // namespace

bool IsOfPeer(const grpc::GenericCallbackServerContext& context) {
  const std::string& method = context.method();
  return method == kPingMethod || method == kAdoptMethod || method == kDeliverMethod ||
         method == kAnswerMethod || method == kPartsMethod;
}

grpc::ServerGenericBidiReactor* TakeFromPeer(Front& front,
                                             const grpc::GenericCallbackServerContext& context) {
  const Metadata& metadata = context.client_metadata();
  const std::string method = context.method();
  PassedOn asked{.method = method};
  if (!Proven(front.outside().secret, ValueOf(metadata, kPassedOn), &asked) ||
      asked.receiver != front.outside().self) {
    return new PeerCall([](PeerCall& call, const std::string&) {
      call.Fail(grpc::StatusCode::UNAUTHENTICATED,
                "no server of this store asks so, or it asks another one");
    });
  }
  const bool look = metadata.find(kLookKey) != metadata.end();
  const std::string ns = ValueOf(metadata, kSpaceKey);
  return new PeerCall([&front, method, look, ns](PeerCall& call, const std::string& request) {
    if (method == kPartsMethod) {
      return ServeParts(front, request,
                        [&call](const std::string& replies) { call.Reply(replies); });
    }
    if (method == kDeliverMethod) return ServeDelivery(front, call, request);
    if (method == kAnswerMethod) return ServeQuestion(front, call, request);
    if (method == kAdoptMethod) return ServeAdoption(front, call, ns);
    front.outside().pinged(look);
    call.Reply("");
  });
}

void HaveAdopted(const Front& front, const std::shared_ptr<Peer>& peer, const std::string& ns,
                 std::function<void(bool)> done) {
  AskPeer(front, peer,
          {.method = kAdoptMethod, .patience = kAdoption, .key = kSpaceKey, .value = ns},
          [done = std::move(done)](const grpc::Status& status, const std::string&) {
            done(status.ok());
          });
}

void HaveDelivered(const Front& front, const std::shared_ptr<Peer>& peer,
                   const std::string& portion,
                   std::function<void(std::optional<std::string>)> done) {
  AskPeer(front, peer, {.method = kDeliverMethod, .patience = kDelivery, .request = portion},
          [done = std::move(done)](const grpc::Status& status, const std::string& reply) {
            done(status.ok() ? std::optional(reply) : std::nullopt);
          });
}

void HaveAnswered(const Front& front, const std::shared_ptr<Peer>& peer,
                  const std::string& question, std::chrono::milliseconds patience,
                  std::function<void(std::optional<std::string>)> done) {
  AskPeer(front, peer, {.method = kAnswerMethod, .patience = patience, .request = question},
          [done = std::move(done)](const grpc::Status& status, const std::string& reply) {
            done(status.ok() ? std::optional(reply) : std::nullopt);
          });
}

void HavePartsDone(const Front& front, const std::shared_ptr<Peer>& peer, const std::string& parts,
                   std::chrono::system_clock::time_point deadline,
                   std::function<void(const grpc::Status&, const std::string&)> done) {
  AskPeer(front, peer, {.method = kPartsMethod, .until = deadline, .request = parts},
          std::move(done));
}

void Ping(const Front& front, const std::shared_ptr<Peer>& peer, bool look,
          std::function<void(bool, const std::string&)> done) {
  const LeaseTime sent = LeaseTimeNow();
  AskPeer(front, peer,
          {.method = kPingMethod, .patience = kPing, .key = kLookKey, .value = look ? "1" : ""},
          [peer, sent, done = std::move(done)](const grpc::Status& status, const std::string&) {
            peer->answers = status.ok();
            if (status.ok()) {
              const LeaseTime now = LeaseTimeNow();
              peer->answered = now.count();
              peer->round_trip_us =
                  std::chrono::duration_cast<std::chrono::microseconds>(now - sent).count();
            }
            done(status.ok(), status.error_message());
          });
}

}  // namespace dfsmr
