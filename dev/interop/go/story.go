package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A story runs to its end or panics; `check` and its like do that.
type story struct {
	name string
	tell func()
}

type skip string

var (
	address = os.Args[1]
	// Names of topics, groups and transactional ids end with it: the program can run again on the same broker.
	run = fmt.Sprintf("%x", time.Now().UnixNano()&0xffffffff)
	ctx = context.Background()
)

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(found, wanted any, what ...any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Errorf("%sfound %.500v, wanted %.500v", fmt.Sprintln(what...), found, wanted))
	}
}

// Waits for `ready`, and panics with what it was last told if it takes longer than half a minute.
func until(what string, ready func() (done bool, told any)) {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		done, told := ready()
		if done {
			return
		}
		if time.Now().After(deadline) {
			panic(fmt.Errorf("not within 30 s: %s; last: %.400v", what, told))
		}
	}
}

func tellAll(stories []story, wanted []string) {
	for _, one := range stories {
		if len(wanted) > 0 && !slices.Contains(wanted, one.name) {
			continue
		}
		begin, result, note := time.Now(), "PASS", ""
		func() {
			defer func() {
				switch caught := recover().(type) {
				case nil:
				case skip:
					result, note = "SKIP", string(caught)
				default:
					result, note = "FAIL", fmt.Sprint(caught)
				}
			}()
			one.tell()
		}()
		note = strings.Join(strings.Fields(note), " ")
		fmt.Printf("result\t%s\t%s\t%.1f\t%.500s\n", one.name, result, time.Since(begin).Seconds(), note)
	}
}

// Starts this program again for one part, and returns what kills it by SIGKILL once it has done that part.
func victim(part ...string) (kill func()) {
	command := exec.Command(os.Args[0], append([]string{address, "--child"}, part...)...)
	command.Stderr = os.Stderr
	output := must(command.StdoutPipe())
	check(command.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	if line != "ready\n" {
		panic(errors.Join(fmt.Errorf("%v said %q where `ready` was wanted", part, line), err, command.Process.Kill()))
	}
	return func() {
		check(command.Process.Kill())
		_ = command.Wait()
	}
}
