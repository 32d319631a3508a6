package datadir

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"waypost/devstack/demo"
)

// State is what waypost-dev generated or chose at former starts. Nothing of it
// is fixed in the source.
type State struct {
	// EncryptionKeys is in the form of WAYPOST_ENCRYPTION_KEYS.
	EncryptionKeys string `json:"encryptionKeys"`
	// The demo application's key, "" until it is made.
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	// CodecPath is the unguessable path of the Web UI's codec endpoint.
	CodecPath string `json:"codecPath"`
	// The Basic auth of the demo webhook at the demo receiver.
	ReceiverUser     string `json:"receiverUser"`
	ReceiverPassword string `json:"receiverPassword"`
	// Data is the demo's, empty until it is made.
	demo.Data
	// Addresses are the ones that were picked where port 0 was asked for, by
	// variable: the next start takes them again if they are free.
	Addresses map[string]string `json:"addresses"`
}

// LoadState reads the state, or makes and saves the first one. first tells which.
func (d *Dir) LoadState() (state State, first bool, err error) {
	b, err := os.ReadFile(d.File(StateFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(d.File(DatabaseFile)); err == nil {
			return State{}, false, fmt.Errorf("%s holds a database but not %s with its keys: set WAYPOST_DATA_DIR to another directory", d.path, StateFile)
		}
		state = newState()
		return state, true, d.SaveState(state)
	}
	if err != nil {
		return State{}, false, fmt.Errorf("read %s: %w", StateFile, err)
	}
	if err := json.Unmarshal(b, &state); err != nil {
		return State{}, false, fmt.Errorf("%s is not what waypost-dev wrote: %w", d.File(StateFile), err)
	}
	if state.Addresses == nil {
		state.Addresses = map[string]string{}
	}
	return state, false, nil
}

// SaveState writes the state.
func (d *Dir) SaveState(s State) error { return d.WriteJSON(StateFile, s) }

func newState() State {
	var key [32]byte
	_, _ = rand.Read(key[:]) // it never fails
	return State{
		EncryptionKeys:   "dev:" + base64.StdEncoding.EncodeToString(key[:]),
		CodecPath:        strings.ToLower(rand.Text()),
		ReceiverUser:     "waypost",
		ReceiverPassword: strings.ToLower(rand.Text()),
		Addresses:        map[string]string{},
	}
}

// Profile is profile.json (docs/contract.md, "Profile"): what a client needs to try
// things out. SearchToken and TenantID are "" without the demo; the token is another
// one after every start.
type Profile struct {
	URL             string `json:"url"`
	AccessKey       string `json:"accessKey"`
	SecretKey       string `json:"secretKey"`
	SearchToken     string `json:"searchToken"`
	TemporalUI      string `json:"temporalUI"`
	TemporalAddress string `json:"temporalAddress"`
	Receiver        string `json:"receiver"`
	WebhookID       string `json:"webhookId"`
	JourneyID       string `json:"journeyId"`
	TenantID        string `json:"tenantId"`
	Console         string `json:"console"`
}

// Setting is one line of waypost.env.
type Setting struct{ Name, Value string }

// WriteEnv writes waypost.env: a file that a shell can read with '.'.
func (d *Dir) WriteEnv(settings []Setting) error {
	var b strings.Builder
	b.WriteString("# Settings with which waypost gateway and waypost worker join this waypost-dev:\n#   . " +
		Quote(d.File(EnvFile)) + " && waypost worker\n# Written at every start. It holds keys. Without a Typesense at WAYPOST_TYPESENSE_URL, their article searches are 503.\n")
	for _, s := range settings {
		fmt.Fprintf(&b, "export %s=%s\n", s.Name, Quote(s.Value))
	}
	return d.Write(EnvFile, []byte(b.String()))
}

// Quote quotes for a shell only where it must, so that simpler readers of the file understand
// it too.
func Quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:,+=@%", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
