-- Keeps, durably, what somebody found out, and ends every lease; done stays done. Without force an
-- operation that a call has a lease of, by this server's clock, stays as it is. Returns the row.
update replayfloor_client.operations
set (last_seen_at_ns, state, settlement, note, lease_owner, lease_until_ns) = (
        -- Of the row itself, and so of what others have written to it meanwhile.
        select case when held then last_seen_at_ns
                    else greatest(last_seen_at_ns, %(at_ns)s) end,
               case when stays then state else 'settled' end,
               case when stays then settlement else %(settlement)s end,
               case when stays then note else %(note)s end,
               case when stays then lease_owner else '' end,
               case when stays then lease_until_ns else 0 end
        from (select held, held or state = 'done' as stays
              from (select state <> 'done' and not %(force)s and lease_owner <> ''
                           and lease_until_ns > replayfloor_client.clock_ns_v1() as held) as look
        ) as told)
where namespace = %(namespace)s and operation_id = %(operation_id)s
  and replayfloor_client.durable_v1()
returning /* columns */;
