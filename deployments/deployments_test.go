package deployments_test

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path"
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

func load(t *testing.T) *types.Project { return loadFile(t, "compose.yaml") }

func loadFile(t *testing.T, name string) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{name}, cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeFileHasEveryRoleAndBothServers(t *testing.T) {
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

var composeFiles = []string{"compose.yaml", "compose.production.yaml"}

// defaultGrace is the default of PAWL_GRACE.
const defaultGrace = 10 * time.Second

func TestFleetsWaitForHealthyServersAndHaveTimeToDrain(t *testing.T) {
	for _, file := range composeFiles {
		p := loadFile(t, file)
		for _, name := range []string{"orchestrator", "worker"} {
			s := p.Services[name]
			for _, server := range []string{"nats", "redis"} {
				if s.DependsOn[server].Condition != types.ServiceConditionHealthy {
					t.Errorf("%s: %s does not wait until %s is healthy", file, name, server)
				}
			}
			if s.Environment["PAWL_DRAIN"] == nil || s.StopGracePeriod == nil {
				t.Errorf("%s: %s: no drain or no stop grace period", file, name)
				continue
			}
			drain, err := time.ParseDuration(*s.Environment["PAWL_DRAIN"])
			if err != nil || time.Duration(*s.StopGracePeriod) <= drain+defaultGrace {
				t.Errorf("%s: %s: stop grace period %s, drain %s, %v", file, name, s.StopGracePeriod, drain, err)
			}
		}
	}
}

func TestRedisEvictsNothingAndBothServersKeepTheirFiles(t *testing.T) {
	for _, file := range composeFiles {
		p := loadFile(t, file)
		if s := p.Services["redis"]; strings.Join(s.Entrypoint, " ") != "/bin/sh /usr/local/bin/redis-start.sh" || s.WorkingDir != "/data" ||
			!slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == s.Entrypoint[1] && v.ReadOnly }) {
			t.Errorf("%s: redis is started by %q in %q, not by redis-start.sh on its AOF", file, s.Entrypoint, s.WorkingDir)
		}
		redis := strings.Join(p.Services["redis"].Command, " ")
		for _, want := range []string{"--maxmemory-policy noeviction", "--appendonly yes", "--hash-max-listpack-value 256"} {
			if !strings.Contains(redis, want) {
				t.Errorf("%s: redis is started as %q, without %s", file, redis, want)
			}
		}
		for _, name := range []string{"nats", "redis"} {
			if v := p.Services[name].Volumes; len(v) == 0 || v[0].Type != types.VolumeTypeVolume || v[0].Target != "/data" {
				t.Errorf("%s: %s: volumes %+v", file, name, v)
			}
		}
	}
}

func TestContainersAreReadOnlyBoundedAndChecked(t *testing.T) {
	for _, file := range composeFiles {
		for name, s := range loadFile(t, file).Services {
			if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.MemLimit == 0 {
				t.Errorf("%s: %s is not read-only, without capabilities and with a limit of memory", file, name)
			}
			if (s.HealthCheck == nil || len(s.HealthCheck.Test) == 0 || s.HealthCheck.Disable) && name != "pawl" {
				t.Errorf("%s: %s has no health check", file, name)
			}
			for _, p := range s.Ports {
				if p.HostIP != "127.0.0.1" {
					t.Errorf("%s: %s publishes port %s to all interfaces", file, name, p.Published)
				}
			}
			for _, v := range s.Volumes {
				if v.Type != types.VolumeTypeBind {
					continue
				}
				if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
					t.Errorf("%s: %s mounts %s: %v", file, name, v.Source, err)
				}
			}
		}
	}
}

// The files in ./secrets do not exist here. What can be checked is that each declared secret is used and each used secret is declared.
func TestProductionHasUsersTLSAndSecrets(t *testing.T) {
	p := loadFile(t, "compose.production.yaml")
	used := map[string]bool{}
	for name, s := range p.Services {
		at := map[string]bool{}
		for _, secret := range s.Secrets {
			used[secret.Source] = true
			at["/run/secrets/"+path.Base(cmp.Or(secret.Target, secret.Source))] = true
			if _, ok := p.Secrets[secret.Source]; !ok {
				t.Errorf("%s: secret %s is not declared", name, secret.Source)
			}
		}
		values := slices.Clone([]string(s.Command))
		for _, v := range s.Environment {
			values = append(values, *v)
		}
		for _, v := range values {
			if strings.HasPrefix(v, "/run/secrets/") && !at[v] {
				t.Errorf("%s reads %s, which it does not have", name, v)
			}
		}
		if env := s.Environment; name == "orchestrator" || name == "worker" {
			user := "pawl-default-" + name
			if !strings.HasPrefix(*env["PAWL_NATS"], "tls://") || !strings.HasPrefix(*env["PAWL_REDIS"], "rediss://") || *env["PAWL_NATS_USER"] != user || *env["PAWL_REDIS_USER"] != user {
				t.Errorf("%s: %v", name, env)
			}
			for _, config := range []string{"nats-permissions.conf", "redis-users.acl"} {
				if b, err := os.ReadFile(config); err != nil || !strings.Contains(string(b), user) {
					t.Errorf("%s has no user %s, %v", config, user, err)
				}
			}
		}
	}
	for name := range p.Secrets {
		if !used[name] {
			t.Errorf("secret %s is not used", name)
		}
	}
	if redis := strings.Join(p.Services["redis"].Command, " "); !strings.Contains(redis, "--port 0") || !strings.Contains(redis, "--aclfile") {
		t.Errorf("redis is started as %q", redis)
	}
}

// known fails the test if the programs do not have a setting or would reject its value. Files are not opened.
func known(t *testing.T, name string, env map[string]string) {
	t.Helper()
	var help strings.Builder
	var cfg struct {
		settings.Fleet
		settings.Orchestrator
		settings.Worker
	}
	settings.Parse(&cfg, name, "", []string{"--help"}, &help, io.Discard)
	for key, value := range env {
		if !strings.Contains(help.String(), "$"+key) {
			t.Errorf("%s: no program has the setting %s", name, key)
			continue
		}
		if !strings.Contains(value, "/run/secrets/") && !strings.HasPrefix(value, "%d/") && !strings.HasSuffix(key, "_USER") {
			t.Setenv(key, value)
		}
	}
	var errs strings.Builder
	if _, ok := settings.Parse(&cfg, name, "", nil, io.Discard, &errs); !ok {
		t.Errorf("%s: %s", name, errs.String())
	}
}

func TestEverySettingInDeploymentsExists(t *testing.T) {
	for _, file := range composeFiles {
		for name, s := range loadFile(t, file).Services {
			env := map[string]string{}
			for key, value := range s.Environment {
				if strings.HasPrefix(key, "PAWL_") && !strings.HasPrefix(key, "PAWL_DEFAULT_") {
					env[key] = *value
				}
			}
			t.Run(file+"/"+name, func(t *testing.T) { known(t, name, env) })
		}
	}
}

func TestEachRoleHasAnImageWithItsProgramAndTheVersion(t *testing.T) {
	b, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, role := range []string{"orchestrator", "worker", "pawl"} {
		if !strings.Contains(text, "AS "+role+"\n") || !strings.Contains(text, `ENTRYPOINT ["/usr/local/bin/`+role+`"]`) || !strings.Contains(text, "./cmd/"+role) {
			t.Errorf("no image of %s", role)
		}
		if _, err := os.Stat(filepath.Join("..", "cmd", role)); err != nil {
			t.Error(err)
		}
	}
	linked := regexp.MustCompile(`-X github\.com/pawlrun/pawl/(\S+)\.(\w+)=`).FindStringSubmatch(text)
	if linked == nil {
		t.Fatal("no version is linked")
	}
	if src, err := os.ReadFile(filepath.Join("..", linked[1], "build.go")); err != nil || !strings.Contains(string(src), "\nvar "+linked[2]+" string\n") {
		t.Errorf("%s has no variable %s, %v", linked[1], linked[2], err)
	}
	for _, file := range composeFiles {
		for name, s := range loadFile(t, file).Services {
			if s.Build != nil && s.Build.Target != name {
				t.Errorf("%s: %s is built from %s", file, name, s.Build.Target)
			}
		}
	}
}

func TestEachImageHasAnSBOM(t *testing.T) {
	var bake struct {
		Group  map[string]struct{ Targets []string }
		Target map[string]struct {
			Inherits, Attest, Tags []string
			Dockerfile, Target     string
			Args                   map[string]string
		}
	}
	b, err := os.ReadFile("docker-bake.json")
	if err == nil {
		err = json.Unmarshal(b, &bake)
	}
	if err != nil {
		t.Fatal(err)
	}
	docker, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	roles := regexp.MustCompile(`(?m)^FROM base AS (\w+)$`).FindAllStringSubmatch(string(docker), -1)
	if len(roles) != 3 || len(bake.Group["default"].Targets) != len(roles) {
		t.Errorf("the Dockerfile has %q, by default %q are built", roles, bake.Group["default"].Targets)
	}
	for _, role := range roles {
		own := bake.Target[role[1]]
		shared := bake.Target[strings.Join(own.Inherits, " ")]
		if own.Target != role[1] || !slices.Contains(bake.Group["default"].Targets, role[1]) || len(own.Tags) != 1 || !strings.HasSuffix(own.Tags[0], ":${VERSION}") {
			t.Errorf("%s: %+v", role[1], own)
		}
		if shared.Args["VERSION"] != "${VERSION}" || !slices.Contains(shared.Attest, "type=sbom") || shared.Dockerfile != "deployments/Dockerfile" {
			t.Errorf("%s: %+v", role[1], shared)
		}
	}
}

func TestImageIsBuiltWithTheGoVersionOfTheModule(t *testing.T) {
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
		t.Errorf("go.mod requires %s", want)
	}
}
