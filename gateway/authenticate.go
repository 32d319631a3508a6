package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
	"waypost/signature"
)

// Nonces remembers the nonces of signed requests.
type Nonces interface {
	// Use tells, over all processes, whether the nonce of a signer was not used before. If what could
	// tell it was forgotten, for all requests that were signed in or before a second, that is since. An
	// error means that this cannot be known now.
	Use(ctx context.Context, signer, nonce string, signed time.Time) (unused bool, since time.Time, err error)
	// UseLocal does the same for this process alone, while Use fails.
	UseLocal(signer, nonce string) (unused bool, err error)
}

// authenticate checks the signature, the nonce, the application's rate limit and
// its grant (docs/contract.md, "Signature checks"). The body is compared later, by
// readBody: until then the signature only proves that the sender has the key.
func (a *server) authenticate(ctx context.Context, r *request) error {
	claim, err := signature.Parse(r.signed())
	if err != nil {
		return unauthorized(err)
	}
	if err := claim.CheckTime(a.Now()); err != nil {
		return unauthorized(err)
	}
	credential, err := a.credentials.find(ctx, claim.AccessKey)
	if err != nil {
		return err
	}
	// An unknown key comes with a secret that nobody has: it costs as much as a
	// wrong signature and is answered alike.
	if !claim.Verify(r.signed(), credential.SecretKey) || credential.Application.Disabled {
		return mismatch()
	}
	r.claim, r.app = claim, credential.Application
	if err := a.useNonce(ctx, r); err != nil {
		return err
	}
	r.proven = true
	if err := a.limit(ctx, r, policyApplication, r.app.ID, r.app.RatePerSecond, r.app.RateBurst); err != nil {
		return err
	}
	if !r.app.Allows(r.route.grant) {
		return lacksGrant(r.route.grant, "this call")
	}
	return nil
}

// checkStill finds the application again once a body has come, which can take minutes: its key may have
// been revoked meanwhile, the application disabled, or the grant taken away.
func (a *server) checkStill(ctx context.Context, r *request) error {
	if r.length == 0 && !r.sent("Transfer-Encoding") {
		return nil
	}
	credential, err := a.credentials.find(ctx, r.claim.AccessKey)
	if err != nil {
		return err
	}
	if credential.Application.Disabled {
		return mismatch()
	}
	if r.app = credential.Application; !r.app.Allows(r.route.grant) {
		return lacksGrant(r.route.grant, "this call")
	}
	return nil
}

// lacksGrant refuses what needs a grant that the application does not have.
func lacksGrant(grant waypost.Grant, what string) error {
	return refuse(waypost.DetailGrantMissing, "grants", "the application lacks "+string(grant)+", which "+what+" needs; use one that has it (waypost apps create --grant)")
}

// useNonce refuses a request that was seen before. While Redis is away, reads go
// on with what this process knows; everything else would risk an effect twice, and
// an export all of it in the hands of somebody who listens.
func (a *server) useNonce(ctx context.Context, r *request) error {
	unused, since, err := a.Nonces.Use(ctx, r.app.ID, r.claim.Nonce, r.claim.Time)
	a.noteRedis(ctx, unused, err)
	if err != nil && (r.method == fiber.MethodGet || r.method == fiber.MethodHead) && !r.route.exports() {
		unused, err = a.Nonces.UseLocal(r.app.ID, r.claim.Nonce)
	}
	switch {
	case err != nil:
		return waypost.Errorf(waypost.CodeServiceUnavailable, "", "the replay guard is away; sign and send the request again in a moment")
	case !since.IsZero():
		r.c.Set("Retry-After", strconv.FormatInt(max(0, since.Unix()+1-a.Now().Unix()), 10))
		return refuse(waypost.DetailRequestExpired, signature.HeaderTimestamp, fmt.Sprintf("is not after %d, from before the replay guard lost its memory (Redis was restarted, "+
			"emptied, replaced, or has evicted keys): the request may have been accepted then; sign it anew, with the present time and another nonce", since.Unix()))
	case !unused:
		return refuse(waypost.DetailNonceReused, signature.HeaderNonce, "was used before; make a new one for each request, also for one that is sent again")
	}
	return nil
}

// noteRedis logs when Redis goes away and when it is back, once each. Only an unused
// nonce shows that Redis answered: a used one may be known without asking it.
func (a *server) noteRedis(ctx context.Context, unused bool, err error) {
	switch {
	case unused && a.nonceAway.CompareAndSwap(true, false):
		a.Log.LogAttrs(ctx, slog.LevelInfo, "the replay guard's Redis is back")
	case err != nil && a.nonceAway.CompareAndSwap(false, true):
		a.Log.LogAttrs(ctx, slog.LevelWarn, "the replay guard's Redis is away: writes are refused, reads use this process's own memory",
			slog.String("error", err.Error()))
	}
}

func unauthorized(err error) error {
	var fault *signature.Error
	if !errors.As(err, &fault) {
		return fmt.Errorf("check signature: %w", err)
	}
	return refuse(waypost.DetailCode(fault.Fault), fault.Header, fault.Message)
}

// otherBody refuses a body other than the signed one. The signature was right, so only a
// holder of the key gets the hash.
func otherBody(size int64, hash string) *waypost.Error {
	return refuse(waypost.DetailSignatureMismatch, signature.HeaderBodyHash, fmt.Sprintf(
		"is not the hash of the body, though the signature is right: %d bytes with the SHA-256 %s arrived; hash exactly the bytes that are sent", size, hash))
}

// mismatch is one and the same for unknown, revoked and disabled keys and wrong
// signatures.
func mismatch() *waypost.Error {
	return refuse(waypost.DetailSignatureMismatch, signature.HeaderSignature, "does not match the request: the access key is unknown, revoked or disabled, the secret key is another one, or what arrived is not what was signed (docs/signing.md, \"My signature does not match\")")
}

func refuse(code waypost.DetailCode, target, message string) *waypost.Error {
	return &waypost.Error{
		Code: waypost.CodeUnauthorized, Target: signature.HeaderSignature, Message: "the request is not authorized: " + target + ": " + message,
		Details: []waypost.Detail{{Code: code, Target: target, Message: message}},
	}
}
