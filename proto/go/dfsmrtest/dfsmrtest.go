// Package dfsmrtest is for tests of handlers: a server of their own, and tasks without any.
package dfsmrtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"dfsmr"
	v1 "dfsmr/v1"
)

// Task makes a task with these params (a value that becomes a JSON object); change edits its message
// before. What the handler tells of its progress is appended to the slice that is returned.
func Task(params any, change ...func(*v1.Task)) (*dfsmr.Task, *[]*v1.ExtendRequest_Item) {
	text, err := json.Marshal(params)
	if err != nil {
		panic(err)
	}
	message := &v1.Task{Machine: "machine", Node: "node", Instance: "instance-1", Visit: 1, Attempt: 1,
		Claim: "claim-1", InstanceParams: string(text)}
	for _, edit := range change {
		edit(message)
	}
	var told []*v1.ExtendRequest_Item
	task := dfsmr.NewTask(message, func(_ context.Context, item *v1.ExtendRequest_Item) error {
		told = append(told, item)
		return nil
	})
	return task, &told
}

// DSRV is a dsrv on a folder of its own and a free port.
type DSRV struct {
	Address string

	t       testing.TB
	folder  string
	program string
	flags   []string
	process *exec.Cmd
}

// Server starts the dsrv that DFSMR_DSRV names, else the one on PATH, and stops it at the end of the
// test. Without any the test is skipped.
func Server(t testing.TB, flags ...string) *DSRV {
	t.Helper()
	program := os.Getenv("DFSMR_DSRV")
	if program == "" {
		found, err := exec.LookPath("dsrv")
		if err != nil {
			t.Skip("no dsrv on PATH: name it by DFSMR_DSRV")
		}
		program = found
	}
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	s := &DSRV{Address: port.Addr().String(), t: t, folder: t.TempDir(), program: program, flags: flags}
	port.Close()
	s.Start()
	t.Cleanup(s.stop)
	return s
}

// Start starts it again after Kill, on the same folder and port.
func (s *DSRV) Start() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.process = exec.Command(s.program,
		append([]string{"--addr", s.Address, "--data", filepath.Join(s.folder, "data")}, s.flags...)...)
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.serves(); err != nil {
		said, _ := os.ReadFile(log.Name())
		s.t.Fatalf("dsrv does not serve: %v\n%s", err, said)
	}
}

func (s *DSRV) serves() error {
	client, err := dfsmr.NewClient(s.Address)
	if err != nil {
		return err
	}
	defer client.Close()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := client.GetClock(ctx, &v1.GetClockRequest{})
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within 20 s: %w", err)
		}
	}
}

// Kill is kill -9.
func (s *DSRV) Kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

func (s *DSRV) stop() {
	_ = s.process.Process.Signal(os.Interrupt)
	done := make(chan struct{})
	go func() { _ = s.process.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		_ = s.process.Process.Kill()
	}
}
