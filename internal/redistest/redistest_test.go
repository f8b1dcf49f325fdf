package redistest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestEveryServerTakesWritesAndRunsLua(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		if err := rdb.Set(ctx, "{a}k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := rdb.Eval(ctx, "return redis.call('GET', KEYS[1])", []string{"{a}k"}).Result()
		if err != nil || got != "v" {
			t.Fatalf("got %v, %v", got, err)
		}
	})
}

func TestClusterRefusesKeysOfTwoSlots(t *testing.T) {
	rdb := redistest.Cluster(t).Client(t)
	if err := rdb.Eval(context.Background(), "return 1", []string{"a", "b"}).Err(); err == nil {
		t.Fatal("a script with keys of two slots was executed")
	}
}

func TestServerWithAnAOFHasItsKeysAfterAKill(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	ctx := context.Background()
	if err := s.Client(t).Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if got, err := s.Client(t).Get(ctx, "k").Result(); err != nil || got != "v" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// A kill during a write leaves the beginning of a script's block in the file. Without a repair, the second start would execute it.
func TestHalfOfAScriptIsNeverExecutedAfterAKill(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	ctx := context.Background()
	push := func(text string) {
		t.Helper()
		if err := s.Client(t).Eval(ctx, `redis.call('RPUSH', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[1])`, []string{"{k}list", "{k}last"}, text).Err(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	push("lost")
	s.Kill()
	logs, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	info, err := os.Stat(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(logs[0], info.Size()-int64(len("*1\r\n$4\r\nEXEC\r\n")+3)); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	push("kept")
	s.Restart(t)
	if got, err := s.Client(t).LRange(ctx, "{k}list", 0, -1).Result(); err != nil || len(got) != 1 || got[0] != "kept" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestTimeOfMiniredisIsSetByTheTest(t *testing.T) {
	m, rdb := redistest.MiniClient(t)
	at := time.UnixMilli(1_790_000_000_123)
	m.SetTime(at)
	got, err := rdb.Time(context.Background()).Result()
	if err != nil || !got.Equal(at) {
		t.Fatalf("got %v, %v", got, err)
	}
}
