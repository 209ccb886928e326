#include "dsrv/http/session.h"

#include <algorithm>

#include "dfsmr/v1/admin.pb.h"
#include "dsrv/http/json_reader.h"
#include "dsrv/http/mapping.h"
#include "dsrv/http/unary.h"
#include "fsm/base/names.h"

namespace dfsmr::http {
namespace {

constexpr const char* kCreate = "dfsmr.v1.TokenService/CreateSession";
constexpr const char* kEnd = "dfsmr.door.DoorService/EndSession";
constexpr const char* kCaller = "dfsmr.v1.TokenService/GetCaller";
constexpr int kUnauthenticated = 16;
constexpr int kSeconds = 12 * 3600;

Response Json(std::string text) {
  Response response;
  response.Set("content-type", "application/json");
  response.body = std::move(text);
  return response;
}

std::string Cookie(const Visitor& visitor, const std::string& secret, int max_age) {
  const bool secure = visitor.client.secure;
  return std::string(SessionCookie(secure)) + "=" + secret + "; Path=/; HttpOnly; SameSite=Strict" +
         "; Max-Age=" + std::to_string(max_age) + (secure ? "; Secure" : "");
}

Result<v1::AccessToken::Role> ToRole(const std::string& text) {
  std::string upper = text;
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  v1::AccessToken::Role role{};
  if (v1::AccessToken::Role_Parse(upper, &role)) return role;
  return Error{Code::kInvalidArgument, Reason::kBadRequest,
               "role: " + Quoted(text) + " is not viewer, worker, operator or admin"};
}

struct SignIn {
  std::string token;  // empty: the header's
  v1::AccessToken::Role role = v1::AccessToken::ROLE_UNSPECIFIED;
};
// Of {"token": …, "role": …}, or of nothing.
Result<SignIn> ToSignIn(const Request& request) {
  SignIn in;
  if (request.body.empty()) return in;
  const auto bad = [](std::string message) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest, std::move(message)};
  };
  if (MediaType(request) != "application/json") {
    return bad("the body is application/json: {\"token\": \"…\"}");
  }
  JsonReader json(request.body);
  json.Expect('{');
  bool more = !json.Take('}');
  while (more && json.ok()) {
    const std::string name = json.String();
    json.Expect(':');
    if (!json.ok()) break;
    if (name != "token" && name != "role") {
      return bad("there is no field " + Quoted(name) + ", but token and role");
    }
    if (json.Peek() != '"') return bad(Quoted(name) + " is a string");
    const std::string value = json.String();
    if (!json.ok()) break;
    if (name == "token") {
      in.token = value;
    } else {
      auto role = ToRole(value);
      if (!role) return role.error();
      in.role = *role;
    }
    more = json.Take(',');
    if (!more) json.Expect('}');
  }
  json.End();
  if (!json.ok()) return bad("the body is no JSON: " + json.problem());
  return in;
}

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(bool asks, Inside& inside, std::shared_ptr<Exchange> exchange)
      : asks_(asks),
        inside_(inside),
        exchange_(std::move(exchange)),
        asker_(ToAsker(exchange_->request, exchange_->visitor)) {}

  void Begin() {
    if (!asks_) return exchange_->Answer(Json("{\"auth\":\"off\"}"));
    const std::string& verb = exchange_->request.method;
    if (verb == "POST") return SignIn();
    verb == "DELETE" ? SignOut() : Show();
  }

 private:
  void Fail(const Failure& failure) { exchange_->Answer(ToResponse(failure)); }

  template <typename Then>
  auto OnThread(Then then) {
    return [self = shared_from_this(), then](auto outcome) {
      self->exchange_->Post([self, then, outcome = std::move(outcome)] { then(*self, outcome); });
    };
  }

  void Show() {
    if (asker_.authorization.empty()) return exchange_->Answer(Json("{\"auth\":\"tokens\"}"));
    inside_.Call(kCaller, asker_, "", std::nullopt,
                 OnThread([](Session& self, const Inside::Outcome& outcome) {
                   if (outcome.status.error_code() == kUnauthenticated) {
                     return self.exchange_->Answer(Json("{\"auth\":\"tokens\"}"));
                   }
                   v1::AccessToken token;
                   if (!outcome.status.ok() || !token.ParseFromString(outcome.reply)) {
                     return self.Fail(Failure::Of(outcome.status, outcome.trailers));
                   }
                   self.exchange_->Answer(Json(ToJson(token)));
                 }));
  }

  void SignIn() {
    auto in = ToSignIn(exchange_->request);
    if (!in) return Fail(Failure::Of(in.error()));
    // A token that is given counts, and not the session that there is already.
    if (!in->token.empty()) asker_.authorization = "Bearer " + in->token;
    const bool printable =
        std::ranges::all_of(asker_.authorization, [](char c) { return c >= 0x20 && c < 0x7f; });
    if (!printable) asker_.authorization.clear();
    v1::CreateSessionRequest request;
    request.set_role(in->role);
    inside_.Call(kCreate, asker_, request.SerializeAsString(), std::nullopt,
                 OnThread([](Session& self, const Inside::Outcome& outcome) {
                   v1::CreateTokenResponse made;
                   if (!outcome.status.ok() || !made.ParseFromString(outcome.reply)) {
                     return self.Fail(Failure::Of(outcome.status, outcome.trailers));
                   }
                   Response response = Json(ToJson(made.token()));
                   response.Set("set-cookie",
                                Cookie(self.exchange_->visitor, made.secret(), kSeconds));
                   self.exchange_->Answer(std::move(response));
                 }));
  }

  void SignOut() {
    inside_.Call(kEnd, asker_, "", std::nullopt,
                 OnThread([](Session& self, const Inside::Outcome& outcome) {
                   if (!outcome.status.ok()) {
                     return self.Fail(Failure::Of(outcome.status, outcome.trailers));
                   }
                   Response response = Json("{\"auth\":\"tokens\"}");
                   response.Set("set-cookie", Cookie(self.exchange_->visitor, "", 0));
                   self.exchange_->Answer(std::move(response));
                 }));
  }

  const bool asks_;
  Inside& inside_;
  const std::shared_ptr<Exchange> exchange_;
  Asker asker_;
};

}  // namespace

void ServeSession(bool asks, Inside& inside, std::shared_ptr<Exchange> exchange) {
  std::make_shared<Session>(asks, inside, std::move(exchange))->Begin();
}

}  // namespace dfsmr::http
