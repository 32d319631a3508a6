package waypost

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Keyring encrypts what must not be stored in the clear: application secrets, webhook
// passwords, stored messages and Temporal's payloads. The first key encrypts, all of them
// decrypt, so that keys can be rotated.
type Keyring struct {
	order []string
	keys  map[string]cipher.AEAD
	raw   map[string][]byte
}

// ErrDecrypt says that a sealed value was made with a key that the ring does
// not hold, for another purpose, or was changed.
var ErrDecrypt = errors.New("cannot decrypt")

// KeyUse counts the values in one table that one key has sealed.
type KeyUse struct {
	Key    string // its id; "" of values that name none
	Table  string
	Values int64
}

// ParseKeyring reads WAYPOST_ENCRYPTION_KEYS: "id:base64,id:base64", each key 32
// bytes, each id 1 to 32 letters, digits, '-' or '_'.
func ParseKeyring(s string) (*Keyring, error) {
	k := &Keyring{keys: map[string]cipher.AEAD{}, raw: map[string][]byte{}}
	for i, part := range strings.Split(s, ",") {
		id, encoded, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok || !isKeyID(id) {
			return nil, fmt.Errorf("key %d: want id:base64 with an id of up to 32 letters, digits, '-' or '_'", i+1)
		}
		if _, doubled := k.keys[id]; doubled {
			return nil, fmt.Errorf("key %d: the id %q stands twice", i+1, id)
		}
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(raw) != 32 {
			return nil, fmt.Errorf("key %q: want 32 bytes in base64, as `openssl rand -base64 32` prints them", id)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", id, err)
		}
		// The nonces are random: 2^32 values for one key are safe.
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", id, err)
		}
		k.order = append(k.order, id)
		k.keys[id] = aead
		k.raw[id] = raw
	}
	return k, nil
}

// DerivedKey is a key for one purpose, made from a key of a ring.
type DerivedKey struct {
	ID  string // of the ring's key
	Key []byte // 32 bytes
}

// Derive makes keys for another purpose (such as "search-token") from those of the
// ring, in their order: the first is to be used, all are to be accepted (HKDF with
// SHA-256, RFC 5869). A derived key tells nothing about the ring's.
func (k *Keyring) Derive(purpose string) ([]DerivedKey, error) {
	keys := make([]DerivedKey, len(k.order))
	for i, id := range k.order {
		key, err := hkdf.Key(sha256.New, k.raw[id], nil, "waypost/"+purpose, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("derive a key from %q: %w", id, err)
		}
		keys[i] = DerivedKey{id, key}
	}
	return keys, nil
}

const maxKeyID = 32 // bytes

func isKeyID(id string) bool {
	if id == "" || len(id) > maxKeyID {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) < 0
}

// Seal encrypts and authenticates plain with the first key. The purpose (such
// as "message/msg_…") is bound to the result: Open must name the same one, so a
// sealed value copied to another place does not open there. The result is
// id ':' nonce ciphertext.
func (k *Keyring) Seal(plain []byte, purpose string) []byte {
	id := k.order[0]
	aead := k.keys[id]
	out := make([]byte, 0, len(id)+1+aead.NonceSize()+len(plain)+aead.Overhead())
	out = append(append(out, id...), ':')
	nonce := out[len(out) : len(out)+aead.NonceSize()]
	_, _ = rand.Read(nonce) // never fails
	return aead.Seal(out[:len(out)+len(nonce)], nonce, plain, []byte(purpose))
}

// Open reverses Seal. It returns an ErrDecrypt that names the key if it cannot.
func (k *Keyring) Open(sealed []byte, purpose string) ([]byte, error) {
	id := KeyOf(sealed)
	if id == "" {
		return nil, fmt.Errorf("%w: the data names no key, it was changed", ErrDecrypt)
	}
	aead, ok := k.keys[id]
	if !ok {
		return nil, fmt.Errorf("%w: the key %q is not in WAYPOST_ENCRYPTION_KEYS", ErrDecrypt, id)
	}
	if rest := sealed[len(id)+1:]; len(rest) >= aead.NonceSize() {
		plain, err := aead.Open(nil, rest[:aead.NonceSize()], rest[aead.NonceSize():], []byte(purpose))
		if err == nil {
			return plain, nil
		}
	}
	return nil, fmt.Errorf("%w: the data was changed, or the key %q in WAYPOST_ENCRYPTION_KEYS is another one than it was", ErrDecrypt, id)
}

// IDs are the ids of the keys in their order: the first encrypts.
func (k *Keyring) IDs() []string { return slices.Clone(k.order) }

// KeyOf is the id of the key that sealed a value, "" if that names none.
func KeyOf(sealed []byte) string {
	id, _, found := strings.Cut(string(sealed[:min(len(sealed), maxKeyID+1)]), ":")
	if !found || !isKeyID(id) {
		return ""
	}
	return id
}
