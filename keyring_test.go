package waypost_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"waypost"
)

func encodedKey(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }

func newKeyring(t *testing.T, s string) *waypost.Keyring {
	t.Helper()
	k, err := waypost.ParseKeyring(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestParseKeyring(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{"a:" + encodedKey(1), " a:" + encodedKey(1) + " , B-2_x:" + encodedKey(2), strings.Repeat("k", 32) + ":" + encodedKey(1)} {
		newKeyring(t, ok)
	}
	for _, bad := range []string{
		"", ",", encodedKey(1), ":" + encodedKey(1), "a:", "a:short", "a:" + encodedKey(1)[:40], "a b:" + encodedKey(1), strings.Repeat("k", 33) + ":" + encodedKey(1),
		"a:" + encodedKey(1) + ",a:" + encodedKey(2), "a:" + encodedKey(1) + ",", "a:" + base64.StdEncoding.EncodeToString(make([]byte, 33)),
	} {
		if _, err := waypost.ParseKeyring(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		} else if strings.Contains(err.Error(), encodedKey(1)) {
			t.Errorf("the error repeats a key: %v", err)
		}
	}
}

func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, "k1:"+encodedKey(1))
	for _, plain := range []string{"", "x", "secret:with:colons", strings.Repeat("long ", 10_000)} {
		sealed := k.Seal([]byte(plain), "message/msg_1")
		if len(plain) > 8 && bytes.Contains(sealed, []byte(plain)) {
			t.Error("the plain text shows")
		}
		if got, err := k.Open(sealed, "message/msg_1"); err != nil || string(got) != plain {
			t.Errorf("opened %q, %v", got, err)
		}
		if again := k.Seal([]byte(plain), "message/msg_1"); bytes.Equal(again, sealed) {
			t.Error("sealing twice gives the same bytes")
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, "k1:"+encodedKey(1))
	sealed := k.Seal([]byte("secret"), "a")
	refused := map[string][]byte{
		"nothing": {}, "no id": []byte("x"), "only an id": []byte("k1:"), "another id": append([]byte("k2"), sealed[2:]...),
		"a long id": append(bytes.Repeat([]byte("k"), 40), sealed...),
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		refused[string(rune('A'+i))+" changed"] = changed
		refused[string(rune('A'+i))+" cut"] = sealed[:i]
	}
	for name, b := range refused {
		if got, err := k.Open(b, "a"); !errors.Is(err, waypost.ErrDecrypt) {
			t.Errorf("%s: opened %q, %v", name, got, err)
		}
	}
	if _, err := k.Open(sealed, "b"); !errors.Is(err, waypost.ErrDecrypt) {
		t.Errorf("opened for another purpose: %v", err)
	}
	for names, of := range map[string]struct {
		ring   string
		sealed []byte
	}{
		`the key "k1" is not in WAYPOST_ENCRYPTION_KEYS`:                                              {"k2:" + encodedKey(1), sealed},
		`the data was changed, or the key "k1" in WAYPOST_ENCRYPTION_KEYS is another one than it was`: {"k1:" + encodedKey(2), sealed},
		`the data names no key, it was changed`:                                                       {"k1:" + encodedKey(1), append([]byte("k\n"), sealed...)},
	} {
		_, err := newKeyring(t, of.ring).Open(of.sealed, "a")
		if err == nil || err.Error() != "cannot decrypt: "+names {
			t.Errorf("the error is %q, want %q", err, names)
		}
	}
	other := newKeyring(t, "k1:"+encodedKey(2))
	if _, err := other.Open(sealed, "a"); !errors.Is(err, waypost.ErrDecrypt) {
		t.Errorf("opened with another key of the same id: %v", err)
	}
}

// A new key is put in front; what the old one sealed still opens.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	old := newKeyring(t, "k1:"+encodedKey(1))
	both := newKeyring(t, "k2:"+encodedKey(2)+",k1:"+encodedKey(1))
	sealed := old.Seal([]byte("secret"), "p")
	if got, err := both.Open(sealed, "p"); err != nil || string(got) != "secret" {
		t.Errorf("opened %q, %v", got, err)
	}
	resealed := both.Seal([]byte("secret"), "p")
	if waypost.KeyOf(sealed) != "k1" || waypost.KeyOf(resealed) != "k2" {
		t.Errorf("sealed with %q, then with %q", waypost.KeyOf(sealed), waypost.KeyOf(resealed))
	}
	if ids := both.IDs(); !slices.Equal(ids, []string{"k2", "k1"}) {
		t.Errorf("the ring has %q", ids)
	}
	if _, err := old.Open(resealed, "p"); !errors.Is(err, waypost.ErrDecrypt) {
		t.Errorf("the old ring opens what the new key sealed: %v", err)
	}
}
