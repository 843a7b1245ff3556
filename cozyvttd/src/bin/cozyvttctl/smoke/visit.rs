//! One visit to the table: arrive, read, perhaps write, read again, compare.

use serde_json::{Value, json};

use super::Args;
use super::attest::Version;
use super::compare::{By, Change, Evidence, compare};
use super::ledger::Ledger;
use super::name::typed_back;
use super::plan::{CHAT, COMPARISON, INITIATIVE, LINK, LOGIN, NAME, READINGS, ROLL, steps};
use super::report::Phase;
use super::seat::Seat;
use super::snapshot::{Snapshot, Trouble, count};
use super::write::Sent;
use crate::failure::Failure;

/// Makes every step of the plan, or says why it is not made.
pub(super) async fn visit(
    seat: &Seat,
    args: &Args,
    attested: Version,
    stamp: &str,
    ledger: &mut Ledger<'_>,
) -> Result<(), Failure> {
    if !arrive(seat, ledger).await? {
        for (phase, plan) in steps(args.write).into_iter().skip(1) {
            let why = "nothing can be checked without a login";
            ledger.skip(phase, plan, why).await?;
        }
        return Ok(());
    }
    let mut before = Snapshot::default();
    for reading in &READINGS {
        let read = before.read(reading, seat, attested);
        ledger.step(Phase::Before, reading.plan, read).await?;
    }
    ledger
        .report
        .table
        .campaign_name
        .clone_from(&before.campaign_name);
    ledger.report.table.role.clone_from(&before.role);
    let mut added = Sent::default();
    if args.write {
        write(seat, args, attested, stamp, &before, &mut added, ledger).await?;
    }
    let mut after = Snapshot::default();
    for reading in &READINGS {
        if before.has(reading) {
            let read = after.read(reading, seat, attested);
            ledger.step(Phase::After, reading.plan, read).await?;
        } else {
            let why = "there is nothing to compare it with";
            ledger.skip(Phase::After, reading.plan, why).await?;
        }
    }
    let mut comparison = Value::Null;
    let compared = async {
        let changes = changes(seat, &before, &after, &added).await?;
        comparison = json!({
            "compared": READINGS
                .iter()
                .filter(|reading| before.has(reading) && after.has(reading))
                .map(|reading| reading.plan.name)
                .collect::<Vec<_>>(),
            "changes": changes,
        });
        judge(&changes, &added)
    };
    ledger.step(Phase::Compare, COMPARISON, compared).await?;
    ledger.report.comparison = comparison;
    Ok(())
}

/// Signs in and connects; whether there is a login.
async fn arrive(seat: &Seat, ledger: &mut Ledger<'_>) -> Result<bool, Failure> {
    let signed_in = ledger
        .step(Phase::Arrive, LOGIN, async {
            let signed_in = seat.session.signed_in().await;
            signed_in.map_err(|error| Trouble::Failed(error.to_string()))?;
            let me = seat.me();
            me.map(|me| format!("as user {me}")).ok_or_else(|| {
                Trouble::Failed("the login does not tell the account's id".to_owned())
            })
        })
        .await?;
    if !signed_in {
        return Ok(false);
    }
    ledger.report.table.user_id = seat.me();
    // Reading goes on without it: the report is to say as much as it can.
    ledger
        .step(Phase::Arrive, LINK, async {
            let up = seat.session.link.up().await;
            up.map_err(|error| Trouble::Failed(error.to_string()))?;
            let role = seat.session.link.state().role;
            Ok(format!(
                "accepted as {}",
                role.as_deref().unwrap_or("member")
            ))
        })
        .await?;
    Ok(true)
}

/// Adds one line and one roll, once everything that was read is in order.
async fn write(
    seat: &Seat,
    args: &Args,
    attested: Version,
    stamp: &str,
    before: &Snapshot,
    added: &mut Sent,
    ledger: &mut Ledger<'_>,
) -> Result<(), Failure> {
    if ledger.report.has_failed() {
        for plan in [NAME, CHAT, ROLL] {
            let why = "nothing is written where a check has failed";
            ledger.skip(Phase::Write, plan, why).await?;
        }
        return Ok(());
    }
    let own = before.campaign_name.as_deref();
    let given = args.campaign_name.as_deref();
    let typed = typed_back(given, own, ledger.deadline());
    if !ledger.step(Phase::Write, NAME, typed).await? {
        for plan in [CHAT, ROLL] {
            let why = "the campaign's name was not typed back";
            ledger.skip(Phase::Write, plan, why).await?;
        }
        return Ok(());
    }
    let role = before.role.as_deref();
    ledger
        .step(Phase::Write, CHAT, added.say(seat, role, stamp))
        .await?;
    ledger
        .step(Phase::Write, ROLL, added.roll(seat, attested, stamp))
        .await?;
    Ok(())
}

async fn changes(
    seat: &Seat,
    before: &Snapshot,
    after: &Snapshot,
    added: &Sent,
) -> Result<Vec<Change>, Trouble> {
    let events = seat.events().await.map_err(Trouble::Failed)?;
    let readings = [before, after]
        .iter()
        .filter(|snapshot| snapshot.has(&INITIATIVE))
        .count();
    // Every connection asks once by itself.
    let connections = usize::try_from(seat.session.link.state().generation).unwrap_or(usize::MAX);
    let me = seat.me();
    let evidence = Evidence {
        me: me.as_deref(),
        sent: added,
        events: &events,
        asked_initiative: connections.saturating_add(readings),
    };
    Ok(compare(before, after, &evidence))
}

/// What the changes come to: only one that nobody else made is a failure.
fn judge(changes: &[Change], added: &Sent) -> Result<String, Trouble> {
    let of = |by: By| changes.iter().filter(|change| change.by == by).count();
    let unexplained: Vec<String> = changes
        .iter()
        .filter(|change| change.by == By::Unexplained)
        .map(|change| format!("{} {} ({})", change.what, change.id, change.how))
        .collect();
    if !unexplained.is_empty() {
        return Err(Trouble::Failed(format!(
            "changed, and no event of somebody else's tells why: {}. This run sent nothing that \
             could; repeat it when nobody plays",
            unexplained.join("; ")
        )));
    }
    let lines = changes
        .iter()
        .filter(|change| change.by == By::Run && change.what == "chat")
        .count();
    if added.line.is_some() && lines == 0 {
        return Err(Trouble::Failed(
            "the line of this run is not in the chat's newest page".to_owned(),
        ));
    }
    let mut told = match of(By::Run) {
        0 => "nothing was changed by this run".to_owned(),
        own => format!("{} by this run, as meant", count(own, "change")),
    };
    if of(By::Connection) > 0 {
        told.push_str("; the server noted in the chat that this account came");
    }
    if of(By::Others) > 0 {
        told = format!(
            "{told}; {} by other people",
            count(of(By::Others), "change")
        );
    }
    Ok(told)
}
