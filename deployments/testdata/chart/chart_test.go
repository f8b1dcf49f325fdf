package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

type values = map[string]any

// scaledObject and the next two types are the parts of custom resources that the chart uses.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef  struct{ Name string }
		MinReplicaCount *int32
		MaxReplicaCount *int32
		CooldownPeriod  *int32
		Triggers        []struct {
			Type              string
			Metadata          map[string]string
			AuthenticationRef struct{ Name string }
		}
	}
}

type triggerAuthentication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretTargetRef []struct{ Parameter, Name, Key string }
	}
}

type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector
		Endpoints []struct{ Port, Path, Interval string }
	}
}

func render(v values) (map[string]any, error) {
	c, err := loader.Load("../../chart")
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "shop", Namespace: "prod", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for name, text := range files {
		for _, doc := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
			if strings.TrimSpace(doc) == "" || strings.HasSuffix(name, ".tpl") {
				continue
			}
			var head metav1.PartialObjectMetadata
			if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, doc)
			}
			object, ok := map[string]any{
				"Deployment": new(appsv1.Deployment), "Service": new(corev1.Service), "PodDisruptionBudget": new(policyv1.PodDisruptionBudget),
				"NetworkPolicy": new(networkingv1.NetworkPolicy), "ScaledObject": new(scaledObject), "ServiceMonitor": new(serviceMonitor),
				"TriggerAuthentication": new(triggerAuthentication),
			}[head.Kind]
			if !ok {
				return nil, fmt.Errorf("%s: kind %q", name, head.Kind)
			}
			if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
				return nil, fmt.Errorf("%s: %s: %w\n%s", name, head.Kind, err, doc)
			}
			out[head.Kind+" "+head.Name] = object
		}
	}
	return out, nil
}

func TestChartRendersWithDefaults(t *testing.T) {
	all, err := render(values{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	if got := strings.Join(names, ", "); got != "Deployment shop-orchestrator, Deployment shop-worker, NetworkPolicy shop-orchestrator, NetworkPolicy shop-worker, "+
		"PodDisruptionBudget shop-orchestrator, PodDisruptionBudget shop-worker, Service shop-orchestrator, Service shop-worker" {
		t.Error(got)
	}
	check(t, all)
}

// elsewhere are values that permit the pods of another namespace to connect to the HTTP port, and orchestrators to a trace collector.
var elsewhere = values{
	"from":   []any{values{"namespaceSelector": values{"matchLabels": values{"team": "ops"}}}},
	"egress": []any{values{"ports": []any{values{"port": 4318}}}},
}

func TestChartWithUsersTLSAndAutoscaling(t *testing.T) {
	v := values{
		"nats":  values{"url": "tls://n1:4222,tls://n2:4222", "existingSecret": "nats-users", "caSecret": "ca"},
		"redis": values{"url": "redis+cluster://r1:6379,r2:6379", "existingSecret": "redis-users", "caSecret": "ca"},
		"api":   values{"existingSecret": "api"}, "drainSeconds": 300, "graceSeconds": 60,
		"worker":         values{"concurrency": 8, "autoscaling": values{"enabled": true, "queue": "heavy"}},
		"serviceMonitor": values{"enabled": true, "labels": values{"release": "prometheus"}}, "networkPolicy": elsewhere,
	}
	all, err := render(v)
	if err != nil {
		t.Fatal(err)
	}
	check(t, all)
	s, ok := all["ScaledObject shop-worker"].(*scaledObject)
	if !ok || len(s.Spec.Triggers) != 1 || s.Spec.ScaleTargetRef.Name != "shop-worker" {
		t.Fatalf("%+v", s)
	}
	trigger := s.Spec.Triggers[0]
	if trigger.Metadata["url"] != "http://shop-orchestrator.prod.svc:7295/api/v1/queues/heavy/demand" || trigger.Metadata["targetValue"] != "8" || trigger.Metadata["valueLocation"] != "demand" {
		t.Errorf("%+v", trigger)
	}
	if d := all["Deployment shop-worker"].(*appsv1.Deployment); d.Spec.Replicas != nil {
		t.Error("the chart sets the replicas that the autoscaler sets")
	}
	p := all["NetworkPolicy shop-orchestrator"].(*networkingv1.NetworkPolicy).Spec
	if p.Ingress[0].From[0].NamespaceSelector.MatchLabels["team"] != "ops" || len(p.Egress) != 3 || p.Egress[2].Ports[0].Port.IntValue() != 4318 {
		t.Errorf("KEDA does not reach the demand, or an orchestrator the collector: %+v", p)
	}
	if m := all["ServiceMonitor shop-pawl"].(*serviceMonitor); m.Labels["release"] != "prometheus" {
		t.Errorf("%+v", m)
	}
}

// check verifies the properties that every rendering must have.
func check(t *testing.T, all map[string]any) {
	t.Helper()
	source, err := os.ReadFile("../../../internal/settings/groups.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, object := range all {
		d, ok := object.(*appsv1.Deployment)
		if !ok {
			continue
		}
		pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
		env := map[string]string{}
		for _, e := range c.Env {
			env[e.Name] = e.Value
			if !strings.Contains(string(source), `env:"`+e.Name+`"`) {
				t.Errorf("%s: no program has the setting %s", name, e.Name)
			}
		}
		drain, err := time.ParseDuration(env["PAWL_DRAIN"])
		if err != nil {
			t.Error(name, err)
		}
		grace := 10 * time.Second
		if env["PAWL_GRACE"] != "" {
			if grace, err = time.ParseDuration(env["PAWL_GRACE"]); err != nil {
				t.Error(name, err)
			}
		}
		if stop := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; stop <= drain+grace {
			t.Errorf("%s: %v to stop, drain %v, grace %v", name, stop, drain, grace)
		}
		mounted := map[string]bool{}
		for _, m := range c.VolumeMounts {
			for _, v := range pod.Volumes {
				if v.Name == m.Name {
					mounted[m.MountPath+"/"+v.Secret.Items[0].Path] = true
				}
			}
		}
		for key, value := range env {
			if strings.HasPrefix(value, "/etc/pawl/") && !mounted[value] {
				t.Errorf("%s: %s=%s, which is not mounted", name, key, value)
			}
		}
		s := c.SecurityContext
		if !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !*pod.SecurityContext.RunAsNonRoot || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s is not confined: %+v", name, s)
		}
		if len(pod.TopologySpreadConstraints) != 1 || c.ReadinessProbe == nil || c.LivenessProbe == nil {
			t.Errorf("%s has no spread or probes", name)
		}
		for _, kind := range []string{"Service ", "PodDisruptionBudget ", "NetworkPolicy "} {
			selector := map[string]string{}
			switch o := all[kind+d.Name].(type) {
			case *corev1.Service:
				selector = o.Spec.Selector
			case *policyv1.PodDisruptionBudget:
				selector = o.Spec.Selector.MatchLabels
			case *networkingv1.NetworkPolicy:
				selector = o.Spec.PodSelector.MatchLabels
			}
			for key, value := range selector {
				if d.Spec.Template.Labels[key] != value {
					t.Errorf("%s selects %s=%s", kind+d.Name, key, value)
				}
			}
			if len(selector) != 3 {
				t.Errorf("%s selects %v", kind+d.Name, selector)
			}
		}
	}
}

// The charts of NATS and Valkey name their services after their releases. The commands of docs/operations/install.md set the names of the releases.
func TestDemoValuesUseTheServersOfTheOtherCharts(t *testing.T) {
	read := func(name string) (text string, v values) {
		t.Helper()
		b, err := os.ReadFile("../../demo/" + name + ".yaml")
		if err == nil {
			err = yaml.Unmarshal(b, &v)
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(b), v
	}
	_, pawl := read("pawl")
	all, err := render(pawl)
	if err != nil {
		t.Fatal(err)
	}
	check(t, all)
	env := map[string]string{}
	for _, e := range all["Deployment shop-orchestrator"].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["PAWL_NATS"] != "nats://nats:4222" || env["PAWL_REDIS"] != "redis://valkey:6379" || env["PAWL_REPLICAS"] != "1" {
		t.Errorf("%v", env)
	}
	if text, _ := read("valkey"); !strings.Contains(text, "appendonly yes") || !strings.Contains(text, "maxmemory-policy noeviction") {
		t.Errorf("an orchestrator would not start on\n%s", text)
	}
	if _, nats := read("nats"); nats["config"].(values)["jetstream"].(values)["enabled"] != true {
		t.Errorf("%v", nats)
	}
	book, err := os.ReadFile("../../../docs/operations/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"helm install nats nats ", "helm install valkey valkey ", "helm install pawl deployments/chart -f deployments/demo/pawl.yaml"} {
		if !strings.Contains(string(book), command) {
			t.Errorf("install.md has no %q", command)
		}
	}
}

func TestSchemaRejectsWrongValues(t *testing.T) {
	for name, v := range map[string]values{
		"unknown":    {"orchestrators": values{}},
		"nested":     {"worker": values{"slots": 3}},
		"namespace":  {"namespace": "a.b"},
		"partitions": {"orchestrator": values{"partitions": 2000}},
		"NATS URL":   {"nats": values{"url": "http://nats"}},
		"drain":      {"drainSeconds": "30s"},
		"token":      {"worker": values{"autoscaling": values{"enabled": true, "queue": "heavy"}}, "networkPolicy": elsewhere},
		"queue":      {"worker": values{"autoscaling": values{"enabled": true}}, "api": values{"existingSecret": "api"}, "networkPolicy": elsewhere},
		"KEDA":       {"worker": values{"autoscaling": values{"enabled": true, "queue": "heavy"}}, "api": values{"existingSecret": "api"}},
		"Prometheus": {"serviceMonitor": values{"enabled": true}},
	} {
		if _, err := render(v); err == nil {
			t.Errorf("%s: %v is accepted", name, v)
		}
	}
}

// The chart must not use anything that the modules in noclient leave out: it would render as empty.
func TestChartNeedsNoClient(t *testing.T) {
	files, err := filepath.Glob("../../chart/templates/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"lookup ", ".Capabilities"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s uses %s", file, word)
			}
		}
	}
}
