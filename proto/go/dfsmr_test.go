package dfsmr_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"dfsmr"
	"dfsmr/dfsmrtest"
	v1 "dfsmr/v1"
)

// The loop against a real server is tested by tests/clients of the repository.

func TestATaskReadsItsMessage(t *testing.T) {
	task, told := dfsmrtest.Task(map[string]any{"url": "u"}, func(m *v1.Task) {
		m.NodeParams, m.Checkpoint, m.Phase = `{"n":9223372036854775807}`, `{"offset":1}`, "run"
	})
	var params struct{ URL string }
	if err := task.Decode(&params); err != nil || params.URL != "u" {
		t.Fatal(params, err)
	}
	if string(task.Input) != `{"n":9223372036854775807}` || task.Phase != "run" || !task.Deadline.IsZero() {
		t.Fatal(task)
	}
	if string(task.EventData) != "{}" || string(task.Checkpoint) != `{"offset":1}` {
		t.Fatal(task)
	}
	err := task.Progress(context.Background(), 0.5, dfsmr.Checkpoint(map[string]int{"n": 1}), dfsmr.Note("half"))
	if err != nil || len(*told) != 1 || (*told)[0].Checkpoint != `{"n":1}` || (*told)[0].Note != "half" {
		t.Fatal(*told, err)
	}
	if task.Progress(context.Background(), math.NaN()) == nil {
		t.Fatal("NaN is no progress")
	}
	if task.Progress(context.Background(), 0, dfsmr.Checkpoint([]int{1})) == nil {
		t.Fatal("a list is no checkpoint")
	}
}

func TestErrorsAreOfTheirReason(t *testing.T) {
	server := dfsmrtest.Server(t)
	client := clientOf(t, server.Address)
	ctx := context.Background()
	_, err := client.Get(ctx, "none")
	if !errors.Is(err, dfsmr.NoSuchInstance) || errors.Is(err, dfsmr.StaleClaim) {
		t.Fatal(err)
	}
	if status.Code(err) != codes.NotFound {
		t.Fatal(status.Code(err))
	}
	_, err = client.Check(ctx, &v1.DefineRequest{Source: "{id: m, nodes: {}}"})
	var refused *dfsmr.Error
	if !errors.As(err, &refused) || refused.Reason != dfsmr.BadMachine || len(refused.Diagnostics) == 0 {
		t.Fatal(err)
	}
}

const manual = "{id: m, nodes: {a: {manual: true, start: true, transitions: {ok: b}}, b: {final: true}}}"

func clientOf(t *testing.T, address string, of ...dfsmr.Option) *dfsmr.Client {
	client, err := dfsmr.NewClient(address, of...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestAllKindsOfCalls(t *testing.T) {
	server := dfsmrtest.Server(t)
	client := clientOf(t, "127.0.0.1:1,"+server.Address, dfsmr.WithNamespace("x"))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	must[*v1.DefineResponse](t)(client.Define(ctx, &v1.DefineRequest{Source: manual}))
	batch := &v1.StartBatchRequest{}
	for _, id := range []string{"i0", "i1", "i2"} {
		batch.Starts = append(batch.Starts, &v1.StartRequest{Machine: "m", Id: id})
	}
	for _, result := range must[*v1.StartBatchResponse](t)(client.StartBatch(ctx, batch)).Results {
		if result.Started == nil || result.Started.Instance.Namespace != "x" {
			t.Fatal(result)
		}
	}
	var ids []string
	list := client.List(ctx, &v1.ListInstancesRequest{PageSize: 2})
	for list.Next() {
		ids = append(ids, list.Value().Id)
	}
	if list.Err() != nil || len(ids) != 3 {
		t.Fatal(ids, list.Err())
	}
	must[*v1.TransitionResponse](t)(client.Transition(ctx, &v1.TransitionRequest{Instance: "i0", Transition: "ok"}))
	stopped := must[*v1.Instance](t)(client.Wait(ctx, &v1.GetInstanceRequest{Id: "i0"}))
	if stopped.Result != v1.Instance_SUCCESS {
		t.Fatal(stopped)
	}
	brief, enough := context.WithTimeout(ctx, 100*time.Millisecond)
	defer enough()
	if _, err := client.Wait(brief, &v1.GetInstanceRequest{Id: "i1"}); err == nil {
		t.Fatal("i1 has not stopped")
	}
}

func TestRequestsInRequestsAreOfTheClientsNamespace(t *testing.T) {
	server := dfsmrtest.Server(t)
	client := clientOf(t, server.Address, dfsmr.WithNamespace("x"))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	must[*v1.DefineResponse](t)(client.Define(ctx, &v1.DefineRequest{Source: strings.Replace(manual, "manual: true, ", "", 1)}))
	must[*v1.StartResponse](t)(client.Start(ctx, &v1.StartRequest{Machine: "m", Id: "i"}))
	work := must[v1.RunnerService_WorkClient](t)(client.Work(ctx))
	open := &v1.WorkRequest{Open: &v1.ReadyRequest{Machine: "m", MaxTasks: 1, Worker: "w"}}
	if err := work.Send(open); err != nil {
		t.Fatal(err)
	}
	if heard := must[*v1.WorkResponse](t)(work.Recv()); len(heard.Tasks) != 1 || heard.Tasks[0].Namespace != "x" {
		t.Fatal(heard)
	}
	topic := &v1.WatchRequest_Topic{Key: "i", What: &v1.WatchRequest_Topic_Instance{Instance: &v1.GetInstanceRequest{Id: "i"}}}
	watch := must[v1.ViewService_WatchClient](t)(client.Watch(ctx, &v1.WatchRequest{Topics: []*v1.WatchRequest_Topic{topic}}))
	if told := must[*v1.WatchResponse](t)(watch.Recv()); told.GetInstance().GetNamespace() != "x" {
		t.Fatal(told)
	}
}

func TestTheFeedGoesOnAfterTheServerWasAway(t *testing.T) {
	server := dfsmrtest.Server(t)
	client := clientOf(t, server.Address)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	must[*v1.DefineResponse](t)(client.Define(ctx, &v1.DefineRequest{Source: manual}))
	must[*v1.StartResponse](t)(client.Start(ctx, &v1.StartRequest{Machine: "m", Id: "one"}))
	feed := client.Follow(ctx, &v1.ChangesRequest{After: "0", Follow: true, Kinds: []v1.Change_Kind{v1.Change_STARTED}})
	if !feed.Next() || feed.Change().Instance != "one" || feed.Cursor() == "0" {
		t.Fatal(feed.Change(), feed.Err())
	}
	server.Kill()
	server.Start()
	for {
		if _, err := client.Start(ctx, &v1.StartRequest{Machine: "m", Id: "two"}); err == nil {
			break
		} else if status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if !feed.Next() || feed.Change().Instance != "two" {
		t.Fatal(feed.Change(), feed.Err())
	}
	cancel()
	if feed.Next() || feed.Err() != nil {
		t.Fatal(feed.Err())
	}
}

func TestAWorkerEndsWithItsContext(t *testing.T) {
	server := dfsmrtest.Server(t)
	client := clientOf(t, server.Address)
	ctx, cancel := context.WithCancel(context.Background())
	must[*v1.DefineResponse](t)(client.Define(ctx, &v1.DefineRequest{
		Source: "{id: m, nodes: {a: {start: true, transitions: {ok: b}}, b: {final: true}}}"}))
	must[*v1.StartResponse](t)(client.Start(ctx, &v1.StartRequest{Machine: "m", Id: "i"}))
	worker := dfsmr.NewWorker(server.Address)
	worker.Handle(dfsmr.Node("m", "a"), func(ctx context.Context, t *dfsmr.Task) (dfsmr.Result, error) {
		cancel()
		time.Sleep(50 * time.Millisecond)
		return dfsmr.OK(json.RawMessage(`{"done":9007199254740993}`)), ctx.Err()
	})
	if err := worker.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if out := must[*v1.Instance](t)(client.Get(context.Background(), "i")).Outputs["a"]; out != `{"done":9007199254740993}` {
		t.Fatal(out)
	}
}
