package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"waypost/client"
	"waypost/config"
	"waypost/devstack/harness"
	"waypost/devstack/temporal"
	"waypost/signature"
	"waypost/store/storetest"
)

// repository is the folder of docker-compose.yml and what belongs to it.
const repository = "../.."

// buildWaypost builds the production program, and returns its path.
func buildWaypost(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "waypost")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, "./cmd/waypost")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build waypost: %v\n%s", err, out)
	}
	return binary
}

func repositoryFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// loadCompose reads docker-compose.yml as Compose does, with these variables.
func loadCompose(ctx context.Context, variables map[string]string) (*types.Project, error) {
	dir, err := filepath.Abs(repository)
	if err != nil {
		return nil, err
	}
	return loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir: dir, ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "docker-compose.yml")}}, Environment: maps.Clone(variables), // it is added to
	}, func(o *loader.Options) {
		o.SetProjectName("waypost", false)
		o.Profiles = []string{"*"}
	})
}

// composeSecrets gives every variable of .env.example a value.
func composeSecrets(t *testing.T) map[string]string {
	t.Helper()
	secrets := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z_]+)=(.*)$`).FindAllStringSubmatch(repositoryFile(t, ".env.example"), -1) {
		if m[2] != "" {
			t.Errorf(".env.example gives %s a value, which somebody will use", m[1])
		}
		secrets[m[1]] = rand.Text()
		if m[1] == "WAYPOST_ENCRYPTION_KEYS" {
			secrets[m[1]] = "k1:" + base64.StdEncoding.EncodeToString([]byte(rand.Text() + rand.Text())[:32])
		}
	}
	return secrets
}

// waypostRole is the role that a service runs, "" if it is no service of ours.
func waypostRole(s types.ServiceConfig) config.Role {
	if s.Build == nil || len(s.Command) == 0 {
		return ""
	}
	return config.Role(s.Command[0])
}

// environOf is what a service is started with.
func environOf(s types.ServiceConfig) map[string]string {
	out := map[string]string{}
	for name, value := range s.Environment {
		if value != nil {
			out[name] = *value
		}
	}
	return out
}

// reaches tells whether a service starts after another one, directly or not.
func reaches(p *types.Project, from, to string) bool {
	for dep := range p.Services[from].DependsOn {
		if dep == to || reaches(p, dep, to) {
			return true
		}
	}
	return false
}

// publishes tells whether a service has a port of the container, on loopback.
func publishes(s types.ServiceConfig, port string) bool {
	return slices.ContainsFunc(s.Ports, func(p types.ServicePortConfig) bool { return strconv.Itoa(int(p.Target)) == port })
}

func TestComposeFile(t *testing.T) {
	t.Parallel()
	secrets := composeSecrets(t)
	project, err := loadCompose(t.Context(), secrets)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("secrets", func(t *testing.T) {
		t.Parallel()
		later := []string{"WAYPOST_CONSOLE_ACCESS_KEY", "WAYPOST_CONSOLE_SECRET_KEY"} // the gateway makes them; the console says that they are missing
		used := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?:^|[^$])\$(\{[^}]*\}?|\w+)`).FindAllStringSubmatch(repositoryFile(t, "docker-compose.yml"), -1) {
			name, _, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(m[1], "{"), ":-}"), ":?")
			if used[name] = true; !ok && !slices.Contains(later, name) {
				t.Errorf("$%s has a default or none: a start must fail without it", m[1])
			}
		}
		if want := slices.Sorted(maps.Keys(secrets)); !slices.Equal(slices.Sorted(maps.Keys(used)), want) {
			t.Errorf("the file uses %v, .env.example has %v", slices.Sorted(maps.Keys(used)), want)
		}
		for name := range secrets {
			without := maps.Clone(secrets)
			without[name] = ""
			project, err := loadCompose(t.Context(), without)
			if err == nil && slices.Contains(later, name) {
				_, _, err = config.Load(config.RoleConsole, settingsOf(environOf(project.Services["console"])))
			}
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("without %s: %v", name, err)
			}
		}
		for service, s := range project.Services {
			for name, value := range environOf(s) {
				hidden := slices.ContainsFunc(slices.Collect(maps.Values(secrets)), func(secret string) bool { return strings.Contains(value, secret) })
				if regexp.MustCompile(`PASSWORD|PWD|SECRET|KEY|DATABASE_URL`).MatchString(name) && !hidden {
					t.Errorf("%s: the secret %s stands in the file", service, name)
				}
			}
		}
	})

	published := map[string]string{}
	for name, s := range project.Services {
		job := s.Restart == ""
		if s.Build == nil && !regexp.MustCompile(`:\d+(\.\d+)+$|:\d+$`).MatchString(s.Image) {
			t.Errorf("%s: the image %s is not pinned", name, s.Image)
		}
		if job != (s.HealthCheck == nil) || job && len(s.Ports) > 0 {
			t.Errorf("%s: a service has a health check and is restarted, a job has and is neither and has no ports", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is published on %q", name, p.Published, p.HostIP)
			}
			if other, ok := published[p.Published]; ok {
				t.Errorf("%s and %s have port %s", name, other, p.Published)
			}
			published[p.Published] = name
		}
		for dep, d := range s.DependsOn {
			want := types.ServiceConditionHealthy
			if project.Services[dep].Restart == "" {
				want = types.ServiceConditionCompletedSuccessfully
			}
			if d.Condition != want || !d.Required {
				t.Errorf("%s waits for %s with %s, want %s", name, dep, d.Condition, want)
			}
		}
	}

	// Whatever a service is told to talk to exists, at that port, and starts before it.
	for name, s := range project.Services {
		for variable, value := range environOf(s) {
			if _, ok := project.Services[value]; ok && !reaches(project, name, value) {
				t.Errorf("%s: %s names %s, for which it does not wait", name, variable, value)
			}
			if u, err := url.Parse(value); err == nil && u.Host != "" {
				value = u.Host
			}
			host, port, err := net.SplitHostPort(value)
			if _, numeric := strconv.Atoi(port); err != nil || numeric != nil {
				continue
			}
			peer, isService := project.Services[host]
			switch {
			case host == "0.0.0.0":
				if !publishes(s, port) {
					t.Errorf("%s: %s listens on port %s, which is not published", name, variable, port)
				}
			case host == "127.0.0.1": // as people reach it
				if published[port] == "" {
					t.Errorf("%s: nothing is published on %s of %s", name, value, variable)
				}
			case !isService || !publishes(peer, port) || !reaches(project, name, host):
				t.Errorf("%s: %s is %s, which no service that it waits for has", name, variable, value)
			}
		}
	}

	roles := map[config.Role]bool{}
	for name, s := range project.Services {
		role := waypostRole(s)
		if role == "" {
			continue
		}
		roles[role] = true
		environ := environOf(s)
		for variable := range environ {
			if i := slices.IndexFunc(config.Variables(), func(v config.Variable) bool { return v.Name == variable }); i < 0 || !slices.Contains(config.Variables()[i].Roles, role) {
				t.Errorf("%s: %s reads no %s", name, role, variable)
			}
		}
		loadRoles := []config.Role{role}
		switch role {
		case config.RoleGateway: // `docker compose run gateway apps create`
			loadRoles = append(loadRoles, config.RoleApps)
		case config.RoleConsole: // `docker compose run console users add`
			loadRoles = append(loadRoles, config.RoleUsers)
		}
		for _, role := range loadRoles {
			if _, warnings, err := config.Load(role, settingsOf(environ)); err != nil || len(warnings) > 0 {
				t.Errorf("%s as %s: %v %v", name, role, err, warnings)
			}
		}
		if s.HealthCheck != nil {
			_, port, err := net.SplitHostPort(environ["WAYPOST_ADMIN_ADDR"])
			if probe := readiness(t, s); err != nil || probe.Port() != port || probe.Path != "/readyz" {
				t.Errorf("%s: the health check asks %s, /readyz is on port %s", name, probe, port)
			}
		}
	}
	for _, role := range []config.Role{config.RoleMigrate, config.RoleGateway, config.RoleWorker, config.RoleConsole} {
		if !roles[role] {
			t.Errorf("no service runs %s", role)
		}
	}
}

// readiness is the URL that a service's health check asks.
func readiness(t *testing.T, s types.ServiceConfig) *url.URL {
	t.Helper()
	test := s.HealthCheck.Test
	u, err := url.Parse(test[len(test)-1])
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func settingsOf(environ map[string]string) []string {
	var out []string
	for name, value := range environ {
		out = append(out, name+"="+value)
	}
	return out
}

// The image runs a static program as a user without rights that can write what it
// must, from a context that holds what is compiled and no secrets.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := repositoryFile(t, "Dockerfile")
	goVersion := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(repositoryFile(t, "go.mod"))[1]
	stages := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1)
	if len(stages) != 2 || stages[0][1] != "golang:"+goVersion || !regexp.MustCompile(`:\d+\.\d+\.\d+$`).MatchString(stages[1][1]) {
		t.Errorf("the stages are %v, go.mod says %s", stages, goVersion)
	}
	dataDir := regexp.MustCompile(`WAYPOST_DATA_DIR=(\S+)`).FindStringSubmatch(text)
	user := regexp.MustCompile(`(?m)^USER ([1-9]\d*:[1-9]\d*)$`).FindStringSubmatch(text)
	if dataDir == nil || user == nil {
		t.Fatalf("data directory %v, user %v", dataDir, user)
	}
	for _, want := range []string{
		"CGO_ENABLED=0", "/etc/ssl/certs/ca-certificates.crt", "zoneinfo.zip", "chown " + user[1] + " " + dataDir[1] + "\n", `ENTRYPOINT ["waypost"]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile has no %s", want)
		}
	}
	ignored := strings.Fields(repositoryFile(t, ".dockerignore"))
	if !slices.Contains(ignored, ".env") || !slices.Contains(ignored, ".git") {
		t.Errorf("the context is without %v alone", ignored)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/waypost")
	list.Dir = repository
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		folder, ours := strings.CutPrefix(path, "waypost/")
		if top, _, _ := strings.Cut(folder, "/"); ours && slices.Contains(ignored, top) {
			t.Errorf("the context is without %s, which is compiled", path)
		}
	}
}

// The roles start with the file's own settings, the production program as it is
// built, with the hosts and ports of this machine in the place of the containers'.
func TestComposeNatively(t *testing.T) {
	t.Parallel()
	project, err := loadCompose(t.Context(), composeSecrets(t))
	if err != nil {
		t.Fatal(err)
	}
	binary := buildWaypost(t)
	base := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--only", "temporal,redis"})
	here := map[string]string{
		"WAYPOST_DATABASE_URL":     "sqlite:" + filepath.Join(t.TempDir(), "waypost.db"),
		"WAYPOST_TEMPORAL_ADDRESS": base.Profile.TemporalAddress,
		"WAYPOST_REDIS_URL":        os.Getenv("WAYPOST_TEST_REDIS_URL"),
		"WAYPOST_TYPESENSE_URL":    "http://" + freeAddr(t), // they start while it is away
	}
	if os.Getenv("WAYPOST_TEST_POSTGRES_URL") != "" || os.Getenv("WAYPOST_TEST_REQUIRE_SERVERS") == "1" {
		here["WAYPOST_DATABASE_URL"] = storetest.PostgresURL(t)
	}
	if here["WAYPOST_REDIS_URL"] == "" {
		for _, setting := range base.RoleSettings(t) {
			if value, ok := strings.CutPrefix(setting, "WAYPOST_REDIS_URL="); ok {
				here["WAYPOST_REDIS_URL"] = value
			}
		}
	}
	// native is a service's environment and the image's, on this machine.
	native := func(service string) map[string]string {
		environ := environOf(project.Services[service])
		for name := range environ {
			if value, ok := here[name]; ok {
				environ[name] = value
			} else if strings.HasSuffix(name, "_ADDR") {
				environ[name] = freeAddr(t)
			}
		}
		environ["WAYPOST_DATA_DIR"] = t.TempDir()
		return environ
	}
	command := func(environ map[string]string, args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(binary, args...) // not t.Context, which ends before the cleanup
		cmd.Env = settingsOf(environ)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		return cmd, &stderr
	}
	migrate, said := command(native("migrate"), project.Services["migrate"].Command...)
	if err := migrate.Run(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, said)
	}
	gateway := native("gateway")
	create, said := command(gateway, "-o", "json", "apps", "create", "--org", "acme", "--name", "crm", "--grant", "*")
	out, err := create.Output()
	var key struct{ AccessKey, SecretKey string }
	if err == nil {
		err = json.Unmarshal(out, &key)
	}
	if err != nil {
		t.Fatalf("apps create: %v\n%s", err, said)
	}
	console := native("console")
	maps.Copy(console, map[string]string{"WAYPOST_CONSOLE_GATEWAY_URL": "http://" + gateway["WAYPOST_HTTP_ADDR"], "WAYPOST_CONSOLE_ACCESS_KEY": key.AccessKey, "WAYPOST_CONSOLE_SECRET_KEY": key.SecretKey})
	for name, environ := range map[string]map[string]string{"gateway": gateway, "worker": native("worker"), "console": console} {
		s := project.Services[name]
		cmd, said := command(environ, s.Command...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // as Docker stops it
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if t.Failed() {
				t.Logf("%s said:\n%s", name, said)
			}
		})
		probe := *readiness(t, s)
		probe.Host = environ["WAYPOST_ADMIN_ADDR"]
		harness.Eventually(t, time.Minute, func() (bool, string) {
			res, err := http.Get(probe.String())
			if err != nil {
				return false, err.Error()
			}
			defer res.Body.Close()
			return res.StatusCode == http.StatusOK, fmt.Sprintf("%s answers %s", name, res.Status)
		})
	}
	caller := client.New("http://"+gateway["WAYPOST_HTTP_ADDR"], signature.Key{AccessKey: key.AccessKey, SecretKey: key.SecretKey})
	var lead struct{ LeadsID int64 }
	if err := caller.Do(t.Context(), http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada"}}, &lead); err != nil || lead.LeadsID == 0 {
		t.Errorf("create a lead: %d, %v", lead.LeadsID, err)
	}
}

// freeAddr is a loopback address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := temporal.ListenFree(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
