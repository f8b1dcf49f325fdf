package deployments_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// unit parses a systemd unit into values by section and key.
func unit(t *testing.T, path string) map[string]map[string][]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string][]string{}
	section := ""
	for n, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
			out[section] = map[string][]string{}
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || section == "" {
				t.Fatalf("%s:%d: %s", path, n+1, line)
			}
			out[section][key] = append(out[section][key], value)
		}
	}
	return out
}

// directives are the permitted keys. systemd ignores misspelled ones.
const directives = ` Description Documentation Wants After Type NotifyAccess TimeoutStartSec Environment EnvironmentFile ExecStart Restart RestartSec
 KillMode TimeoutStopSec DynamicUser LoadCredential LimitNOFILE NoNewPrivileges ProtectSystem ProtectHome PrivateTmp PrivateDevices
 ProtectKernelTunables ProtectKernelModules ProtectControlGroups RestrictAddressFamilies RestrictNamespaces RestrictSUIDSGID
 LockPersonality CapabilityBoundingSet WantedBy `

func TestUnitsNotifyDrainAndUseKnownSettings(t *testing.T) {
	files, err := filepath.Glob("systemd/*.service")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			u := unit(t, file)
			for _, section := range u {
				for key := range section {
					if !strings.Contains(strings.ReplaceAll(directives, "\n", " "), " "+key+" ") {
						t.Errorf("directive %s", key)
					}
				}
			}
			s := u["Service"]
			for key, want := range map[string]string{"Type": "notify", "KillMode": "mixed", "TimeoutStartSec": "infinity", "Restart": "always"} {
				if strings.Join(s[key], " ") != want {
					t.Errorf("%s=%v, want %s", key, s[key], want)
				}
			}
			program := filepath.Base(s["ExecStart"][0])
			if _, err := os.Stat(filepath.Join("..", "cmd", program)); err != nil || filepath.Base(file) != "pawl-"+program+".service" {
				t.Errorf("it starts %s, %v", program, err)
			}
			env := map[string]string{}
			for _, line := range s["Environment"] {
				for v := range strings.FieldsSeq(line) {
					key, value, _ := strings.Cut(v, "=")
					env[key] = value
				}
			}
			known(t, program, env)
			drain, err := time.ParseDuration(env["PAWL_DRAIN"])
			stop, serr := time.ParseDuration(s["TimeoutStopSec"][0] + "s")
			if err != nil || serr != nil || stop <= drain+defaultGrace {
				t.Errorf("drain %v, stop %v, %v, %v", drain, stop, err, serr)
			}
		})
	}
}
