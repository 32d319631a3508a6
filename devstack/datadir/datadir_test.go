package datadir_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"waypost"
	"waypost/devstack/datadir"
)

func claim(t *testing.T, path string) *datadir.Dir {
	t.Helper()
	d, err := datadir.Claim(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Mode().Perm()
}

func TestClaimIsExclusive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	d := claim(t, path)
	if got := mode(t, path); got != 0o700 {
		t.Errorf("the directory's mode is %o", got)
	}
	_, err := datadir.Claim(path)
	if err == nil || !strings.Contains(err.Error(), "another waypost-dev") || !strings.Contains(err.Error(), "WAYPOST_DATA_DIR") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the second claim's error is %v", err)
	}
	if err := d.Release(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(path); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	again := claim(t, path)
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

func TestClaimAfterAKill(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	for _, name := range []string{datadir.LockFile, datadir.StateFile + ".new"} { // nobody holds the lock
		if err := os.WriteFile(filepath.Join(path, name), []byte("4711\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := claim(t, path)
	if _, first, err := d.LoadState(); err != nil || !first {
		t.Errorf("beside half a file: first %v, error %v", first, err)
	}
	if _, err := os.Stat(d.File(datadir.StateFile + ".new")); err == nil {
		t.Error("half a file is still there")
	}
	if err := d.Release(); err != nil {
		t.Error(err)
	}
}

func TestClaimOfAnUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "sub"), "/proc/waypost"} {
		_, err := datadir.Claim(path)
		if err == nil || !strings.Contains(err.Error(), "cannot be used") || !strings.Contains(err.Error(), "WAYPOST_DATA_DIR") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is %v", path, err)
		}
	}
}

func TestStateIsGeneratedOnce(t *testing.T) {
	t.Parallel()
	d, other := claim(t, t.TempDir()), claim(t, t.TempDir())
	state, first, err := d.LoadState()
	if err != nil || !first {
		t.Fatalf("first %v, error %v", first, err)
	}
	if _, err := waypost.ParseKeyring(state.EncryptionKeys); err != nil {
		t.Error(err)
	}
	if got := mode(t, d.File(datadir.StateFile)); got != 0o600 {
		t.Errorf("its mode is %o", got)
	}
	again, first, err := d.LoadState()
	if err != nil || first || again.EncryptionKeys != state.EncryptionKeys || again.CodecPath != state.CodecPath || again.ReceiverPassword != state.ReceiverPassword {
		t.Errorf("the second time: %v, %v, %v", again, first, err)
	}
	elsewhere, _, err := other.LoadState()
	if err != nil || elsewhere.EncryptionKeys == state.EncryptionKeys || elsewhere.CodecPath == state.CodecPath || elsewhere.ReceiverPassword == state.ReceiverPassword {
		t.Errorf("two directories share secrets, %v", err)
	}
	if len(state.CodecPath) < 20 || len(state.ReceiverPassword) < 20 {
		t.Errorf("short secrets: %d and %d characters", len(state.CodecPath), len(state.ReceiverPassword))
	}
}

func TestDatabaseWithoutItsKeys(t *testing.T) {
	t.Parallel()
	d := claim(t, t.TempDir())
	if err := d.Write(datadir.DatabaseFile, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.LoadState(); err == nil || !strings.Contains(err.Error(), datadir.StateFile) {
		t.Errorf("the error is %v", err)
	}
}

// As docs/contract.md, "Profile" has it.
func TestProfileHasTheMembers(t *testing.T) {
	t.Parallel()
	d := claim(t, t.TempDir())
	if err := d.WriteJSON(datadir.ProfileFile, datadir.Profile{URL: "http://127.0.0.1:8080"}); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, d.File(datadir.ProfileFile)); got != 0o600 {
		t.Errorf("its mode is %o", got)
	}
	b, err := os.ReadFile(d.File(datadir.ProfileFile))
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]string
	if err := json.Unmarshal(b, &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"url", "accessKey", "secretKey", "searchToken", "temporalUI", "temporalAddress", "receiver", "webhookId", "journeyId", "tenantId", "console"} {
		if _, ok := members[name]; !ok {
			t.Errorf("%s is missing", name)
		}
		delete(members, name)
	}
	if len(members) > 0 {
		t.Errorf("members that docs/contract.md does not name: %v", members)
	}
}

func TestEnvIsReadByAShell(t *testing.T) {
	t.Parallel()
	d := claim(t, t.TempDir())
	settings := []datadir.Setting{
		{"WAYPOST_PLAIN", "redis://127.0.0.1:6380/0"},
		{"WAYPOST_KEYS", "dev:a+b/c="},
		{"WAYPOST_ODD", `it's $HOME; "x" & y?z=1 *`},
		{"WAYPOST_EMPTY", ""},
	}
	if err := d.WriteEnv(settings); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, d.File(datadir.EnvFile)); got != 0o600 {
		t.Errorf("its mode is %o", got)
	}
	out, err := exec.Command("sh", "-c", `. "$0" && exec env`, d.File(datadir.EnvFile)).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if !strings.Contains("\n"+string(out), "\n"+s.Name+"="+s.Value+"\n") {
			t.Errorf("%s is not %q in\n%s", s.Name, s.Value, out)
		}
	}
}
