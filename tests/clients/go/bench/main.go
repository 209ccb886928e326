// Empty work on one stream, 64 tasks in hand: by the library, or by the plain stubs: as ../../bench.py.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"dfsmr"
	v1 "dfsmr/v1"
)

const jobs = 64

func library(done *int64) {
	w := dfsmr.NewWorker("", dfsmr.WithJobs(jobs), dfsmr.WithCounter(func(name string, amount int) {
		if name == "reported" {
			atomic.AddInt64(done, int64(amount))
		}
	}))
	w.Handle(dfsmr.Node("loop", "turn"), func(context.Context, *dfsmr.Task) (dfsmr.Result, error) {
		return dfsmr.To("again"), nil
	})
	log.Fatal(w.Run(context.Background()))
}

func plain(done *int64) {
	conn, err := grpc.Dial(os.Getenv("DFSMR_SERVER"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	stream, err := v1.NewRunnerServiceClient(conn).Work(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	session := make([]byte, 16)
	if _, err := rand.Read(session); err != nil {
		log.Fatal(err)
	}
	request := &v1.WorkRequest{Open: &v1.ReadyRequest{Namespace: os.Getenv("DFSMR_NAMESPACE"),
		Machine: "loop", Node: "turn", MaxTasks: jobs, Worker: "plain",
		Session: hex.EncodeToString(session), KeepFor: durationpb.New(30 * time.Second)}}
	for {
		if err := stream.Send(request); err != nil {
			log.Fatal(err)
		}
		request = &v1.WorkRequest{}
		for len(request.Transitions) == 0 {
			response, err := stream.Recv()
			if err != nil {
				log.Fatal(err)
			}
			atomic.AddInt64(done, int64(len(response.Results)))
			for _, task := range response.Tasks {
				request.Transitions = append(request.Transitions, &v1.TransitionRequest{
					Instance: task.Instance, Claim: task.Claim, Transition: "again"})
			}
		}
	}
}

func main() {
	var done int64
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	if err != nil {
		log.Fatal(err)
	}
	go map[string]func(*int64){"library": library, "plain": plain}[os.Args[1]](&done)
	for atomic.LoadInt64(&done) < 200 {
		time.Sleep(10 * time.Millisecond)
	}
	first, began := atomic.LoadInt64(&done), time.Now()
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	fmt.Printf("%.0f\n", float64(atomic.LoadInt64(&done)-first)/time.Since(began).Seconds())
}
