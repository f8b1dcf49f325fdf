package deployments_test

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/pawlrun/pawl/internal/settings"
)

func load(t *testing.T) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{"compose.yaml"}, cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheComposeFileIsAWholePawl(t *testing.T) {
	p := load(t)
	for name, replicas := range map[string]int{"nats": 1, "redis": 1, "orchestrator": 2, "worker": 3} {
		s, err := p.GetService(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := s.GetScale(); got != replicas {
			t.Errorf("%s: %d replicas, want %d", name, got, replicas)
		}
		if s.HealthCheck == nil || len(s.HealthCheck.Test) == 0 || s.HealthCheck.Disable {
			t.Errorf("%s has no health check", name)
		}
	}
}

func TestFleetsWaitForHealthyServersAndAreGivenTimeToDrain(t *testing.T) {
	p := load(t)
	for _, name := range []string{"orchestrator", "worker"} {
		s := p.Services[name]
		for _, server := range []string{"nats", "redis"} {
			if s.DependsOn[server].Condition != types.ServiceConditionHealthy {
				t.Errorf("%s does not wait until %s is healthy", name, server)
			}
		}
		if s.Environment["PAWL_DRAIN"] == nil || s.StopGracePeriod == nil {
			t.Errorf("%s: no drain or no stop grace period", name)
			continue
		}
		drain, err := time.ParseDuration(*s.Environment["PAWL_DRAIN"])
		if err != nil || time.Duration(*s.StopGracePeriod) <= drain {
			t.Errorf("%s: stop grace period %s, drain %s, %v", name, s.StopGracePeriod, drain, err)
		}
	}
}

func TestRedisEvictsNothingAndBothServersKeepTheirFiles(t *testing.T) {
	p := load(t)
	redis := strings.Join(p.Services["redis"].Command, " ")
	for _, want := range []string{"--maxmemory-policy noeviction", "--appendonly yes"} {
		if !strings.Contains(redis, want) {
			t.Errorf("redis is started as %q, without %s", redis, want)
		}
	}
	for _, name := range []string{"nats", "redis"} {
		if v := p.Services[name].Volumes; len(v) != 1 || v[0].Type != types.VolumeTypeVolume || v[0].Target != "/data" {
			t.Errorf("%s: volumes %+v", name, v)
		}
	}
}

func TestEverySettingIsOneThatTheProgramsKnow(t *testing.T) {
	for name, s := range load(t).Services {
		var cfg struct {
			settings.Fleet
			settings.Orchestrator
			settings.Worker
		}
		var help strings.Builder
		settings.Parse(&cfg, name, "", []string{"--help"}, &help, io.Discard)
		for key, value := range s.Environment {
			if !strings.Contains(help.String(), "$"+key) || value == nil {
				t.Errorf("%s: nobody knows %s", name, key)
				continue
			}
			t.Setenv(key, *value)
		}
		var errs strings.Builder
		if _, ok := settings.Parse(&cfg, name, "", nil, io.Discard, &errs); !ok {
			t.Errorf("%s: %s", name, errs.String())
		}
	}
}

func TestTheImageHasTheProgramsThatTheComposeFileStarts(t *testing.T) {
	b, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var built []string
	for _, m := range regexp.MustCompile(`\./cmd/([a-z]+)`).FindAllStringSubmatch(string(b), -1) {
		built = append(built, m[1])
		if _, err := os.Stat(filepath.Join("..", "cmd", m[1])); err != nil {
			t.Error(err)
		}
	}
	for name, s := range load(t).Services {
		if s.Build == nil {
			continue
		}
		program := slices.Concat(s.Entrypoint, s.Command)[0]
		if !slices.Contains(built, program) {
			t.Errorf("%s starts %s, the image has %v", name, program, built)
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Error(err)
		}
	}
}

func TestTheImageIsBuiltWithTheGoThatTheModuleAsksFor(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	docker, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if want == nil || !strings.Contains(string(docker), "golang:"+string(want[1])+"-") {
		t.Errorf("go.mod asks for %s", want)
	}
}
